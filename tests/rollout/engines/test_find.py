"""Rollout engines by name."""

from __future__ import annotations

import pytest

from vlrft.engine import find_engine
from vlrft.rollout.engines import ROLLOUT_ENGINES, find_rollout_engine
from vlrft.rollout.engines.hf import Hf
from vlrft.schema.errors import ConfigError


def test_the_engines_are_the_files_that_say_so() -> None:
    assert list(ROLLOUT_ENGINES) == ["hf"]
    assert find_rollout_engine("hf") == find_rollout_engine({"name": "hf"}) == Hf()


def test_wrong_names_and_settings_are_worded_as_those_of_engine() -> None:
    for choice in ("hff", {}, {"name": "x"}, {"name": "hf", "rows": 3}):
        with pytest.raises(ConfigError) as refused:
            find_rollout_engine(choice)
        (line,) = refused.value.mistakes
        assert line.startswith("rollout.engine")
    with pytest.raises(
        ConfigError, match=r"rollout\.engine: unknown name 'hff'; did you mean hf\?"
    ):
        find_rollout_engine("hff")
    with pytest.raises(ConfigError, match=r"^engine: unknown name 'singel'; did you mean single\?"):
        find_engine("singel")
    with pytest.raises(ConfigError, match=r"rollout\.engine\.rows: unknown key"):
        find_rollout_engine({"name": "hf", "rows": 3})
