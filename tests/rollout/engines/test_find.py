"""Rollout engines by name."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

import vlrft.rollout.engines
from tests.conftest import Tiny
from vlrft.config import RolloutConfig, strict
from vlrft.engine import find_engine
from vlrft.plugins.kinds import Kinds
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import (
    ROLLOUT_ENGINES,
    EnginePlace,
    build_rollout_engine,
    can_stream,
    close_rollout_engine,
    find_rollout_engine,
)
from vlrft.rollout.engines.hf import Hf, HfEngine
from vlrft.schema.errors import ConfigError


def test_the_engines_are_the_files_that_say_so() -> None:
    assert list(ROLLOUT_ENGINES) == ["hf", "vllm"]
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
        assert list(table) == ["hf", "own", "vllm"]
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


class Placed(HfEngine):
    closed = False
    place: EnginePlace

    def close(self) -> None:
        self.closed = True


@strict
class PlacedKind:
    streams: ClassVar[bool] = True

    def check(self, config: RolloutConfig) -> None:
        pass

    def build(self, policy: Policy) -> HfEngine:
        raise AssertionError("build_at is called in its place")

    def build_at(self, policy: Policy, place: EnginePlace) -> Placed:
        engine = Placed(policy)
        engine.place = place
        return engine


def test_an_engine_that_asks_for_its_place_is_built_at_it_and_closed(
    tiny: Tiny, tmp_path: Path
) -> None:
    config = RolloutConfig(engine=f"{__name__}:PlacedKind")
    place = EnginePlace(folder=tmp_path)
    engine = build_rollout_engine(config, tiny("qwen2"), place)
    assert isinstance(engine, Placed)
    tokens = config.max_prompt_tokens + config.max_tokens
    assert engine.place == replace(place, context=tokens)
    close_rollout_engine(engine)
    assert engine.closed
    without = build_rollout_engine(config, tiny("qwen2"))
    assert isinstance(without, Placed)
    assert without.place.folder is None
    close_rollout_engine(HfEngine(tiny("qwen2")))  # holds nothing, so nothing is asked of it


def test_a_kind_says_whether_its_engines_stream() -> None:
    assert can_stream(PlacedKind())
    assert not can_stream(Hf())
