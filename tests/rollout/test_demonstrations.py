"""Demonstrations: gold answers as groups of one rollout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.conftest import Tiny
from tests.rollout.test_play import TASK
from vlrft.rollout.demonstrations import (
    DemonstrationCache,
    learn_observations,
    play_demonstrations,
)
from vlrft.rollout.task import LoadedTask
from vlrft.schema import DataError, TrainingRow
from vlrft.testing.small_policies import sample


@pytest.mark.parametrize("turns", [["1", "2"], []])
def test_a_gold_answer_that_does_not_end_the_episode_is_refused(
    tiny: Tiny, turns: Sequence[str]
) -> None:
    task = replace(TASK, gold=lambda sample: turns)
    loaded = LoadedTask(task=task, samples=[], rewards=())
    with pytest.raises(DataError, match="game: the environment continues after the last turn"):
        play_demonstrations(loaded, [sample("game", "plain")], tiny("qwen2").chat)


def test_a_gold_answer_with_turns_left_when_the_episode_ends_is_refused(tiny: Tiny) -> None:
    task = replace(TASK, gold=lambda sample: ["1", "2", "3", "4"])
    loaded = LoadedTask(task=task, samples=[], rewards=())
    with pytest.raises(DataError, match="game: the environment ends before the last turn"):
        play_demonstrations(loaded, [sample("game", "plain")], tiny("qwen2").chat)


def test_samples_with_equal_ids_each_have_their_own_answer(tiny: Tiny) -> None:
    task = replace(TASK, env=None, gold=lambda sample: str(sample.answer))
    loaded = LoadedTask(task=task, samples=[], rewards=())
    samples = [sample("a", "1"), sample("a", "2")]
    groups = DemonstrationCache().play(loaded, samples, tiny("qwen2").chat)
    assert [g.rollouts[0].text for g in groups] == ["1", "2"]


# a new line, the opening of a message, its text and end, the opening of the answer, its beginning
FOLLOWS = (True, False, True, False, True)


def ids_of(row: TrainingRow) -> list[int]:
    return [i for piece in row.pieces for i in piece.ids]


@pytest.mark.parametrize(
    ("kind", "family", "learned"),
    [
        ("grows", "qwen2", [True, *FOLLOWS, True, *FOLLOWS, True]),
        ("image grows", "qwen2_vl", [True, False, True, False, True]),
        ("plain", "qwen2", [True]),
    ],
)
def test_observations_are_learned_where_they_are_text_between_the_turns_of_a_row(
    tiny: Tiny, kind: str, family: str, learned: list[bool]
) -> None:
    loaded = LoadedTask(task=TASK, samples=[], rewards=())
    policy = tiny(family)
    plain = play_demonstrations(loaded, [sample("game", kind)], policy.chat)
    (group,) = learn_observations(plain, policy.banned.nonzero()[:, 0].tolist())
    row, before = group.rollouts[0].rows[0], plain[0].rollouts[0].rows[0]
    assert [piece.sampled for piece in row.pieces] == learned
    assert ids_of(row) == ids_of(before)
    assert not any(policy.banned[i] for p in row.pieces if p.sampled for i in p.ids)
    assert row.prompt == before.prompt
    assert group.rollouts[0].turns == plain[0].rollouts[0].turns
