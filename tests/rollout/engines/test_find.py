"""Rollout engines by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import vlrft.rollout.engines
from vlrft.engine import find_engine
from vlrft.plugins.kinds import Kinds
from vlrft.rollout.engines import ROLLOUT_ENGINES, find_rollout_engine
from vlrft.rollout.engines.hf import Hf
from vlrft.schema.errors import ConfigError


def test_the_engines_are_the_files_that_say_so() -> None:
    assert list(ROLLOUT_ENGINES) == ["hf"]
    assert find_rollout_engine("hf") == find_rollout_engine({"name": "hf"}) == Hf()


OWN = """
from vlrft.config import strict
from vlrft.rollout.engines.hf import HfEngine


@strict
class Own:
    size: int = 1

    def check(self, config):
        pass

    def build(self, policy):
        return HfEngine(policy)


KIND = Own
"""


def test_a_new_file_in_the_folder_is_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    path = [*vlrft.rollout.engines.__path__, str(tmp_path)]
    monkeypatch.setattr(vlrft.rollout.engines, "__path__", path)
    table = Kinds("vlrft.rollout.engines", "vlrft.rollout_engines")  # the shared one has looked
    monkeypatch.setattr(vlrft.rollout.engines, "ROLLOUT_ENGINES", table)
    try:
        assert list(table) == ["hf", "own"]
        assert vars(find_rollout_engine({"name": "own", "size": 3})) == {"size": 3}
    finally:
        sys.modules.pop("vlrft.rollout.engines.own")


def test_wrong_names_and_settings_are_worded_as_those_of_engine() -> None:
    for choice in ("hff", {}, {"name": "x"}, {"name": "hf", "rows": 3}):
        with pytest.raises(ConfigError) as refused:
            find_rollout_engine(choice)
        (line,) = refused.value.mistakes
        assert line.startswith("rollout.engine")
    with pytest.raises(
        ConfigError, match=r"rollout\.engine: unknown rollout engine 'hff'; did you mean hf\?"
    ):
        find_rollout_engine("hff")
    with pytest.raises(
        ConfigError, match=r"^engine: unknown train engine 'singel'; did you mean single\?"
    ):
        find_engine("singel")
    with pytest.raises(ConfigError, match=r"rollout\.engine\.rows: unknown key"):
        find_rollout_engine({"name": "hf", "rows": 3})
