"""Gold answers and gold plays as groups of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.conftest import Tiny
from tests.fakes.policies import sample
from tests.rollout.test_play import TASK
from vlrft.rollout.demonstrations import DemonstrationCache, play_demonstrations
from vlrft.rollout.task import LoadedTask
from vlrft.schema import DataError


@pytest.mark.parametrize("said", [["1", "2"], []])
def test_a_gold_play_that_does_not_end_is_refused(tiny: Tiny, said: Sequence[str]) -> None:
    task = replace(TASK, gold=lambda sample: said)
    loaded = LoadedTask(task=task, samples=[], rewards=())
    with pytest.raises(DataError, match="game: its gold play goes on behind its last turn"):
        play_demonstrations([sample("game", "plain")], loaded, tiny("qwen2").chat)


def test_a_gold_play_that_ends_too_early_is_refused(tiny: Tiny) -> None:
    task = replace(TASK, gold=lambda sample: ["1", "2", "3", "4"])
    loaded = LoadedTask(task=task, samples=[], rewards=())
    with pytest.raises(DataError, match="game: its gold play ends before its last turn"):
        play_demonstrations([sample("game", "plain")], loaded, tiny("qwen2").chat)


def test_samples_of_one_name_each_have_their_own_answer(tiny: Tiny) -> None:
    task = replace(TASK, env=None, gold=lambda sample: str(sample.answer))
    loaded = LoadedTask(task=task, samples=[], rewards=())
    groups = DemonstrationCache().groups(
        [sample("a", "1"), sample("a", "2")], loaded, tiny("qwen2").chat
    )
    assert [g.rollouts[0].text for g in groups] == ["1", "2"]
