"""Advantages of rows, rollouts and turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vlrft.advantages import find_estimator
from vlrft.advantages.rows import estimate_rows, estimate_step, rollout_means, turn_means
from vlrft.algorithms import ALGORITHMS
from vlrft.schema import Group, Piece, Prompt, TrainingRow, Turn
from vlrft.testing.small_policies import group

ESTIMATOR = ALGORITHMS["gpg"].estimator


def episodes() -> Group:
    """Two rollouts of two turns in one growing row, with two tokens and one; the first earns at its first turn."""
    one = group("a", [1.0, 0.0])
    turns = [Turn(shown="", images=(), reward=reward) for reward in (1.0, 0.0)]
    rollouts = []
    for rollout, earned in zip(one.rollouts, (turns, [turns[1], turns[1]]), strict=True):
        pieces = (
            Piece(ids=(5, 6), text="", turn=earned[0]),
            Piece(ids=(7,), text="", sampled=False),
            Piece(ids=(8,), text="", turn=earned[1]),
        )
        rollouts.append(
            replace(rollout, rows=(TrainingRow(prompt=Prompt(ids=(1,)), pieces=pieces),))
        )
    return replace(one, rollouts=tuple(rollouts))


def test_a_row_has_an_advantage_for_each_action_token() -> None:
    ((first, second),) = estimate_rows([episodes()], ESTIMATOR)
    assert [rows[0].shape for rows in (first, second)] == [
        (3,),
        (3,),
    ]  # the inserted token has none
    np.testing.assert_allclose(first[0], 0.5)
    np.testing.assert_allclose(second[0], -0.5)


def test_the_mean_over_equal_tokens_is_exact() -> None:
    third = np.full(7, 1 / 3)
    assert rollout_means([[[third], [third[:3], third[3:]]]]) == [[1 / 3, 1 / 3]]
    assert rollout_means([[[np.zeros(0)]]]) == [[0.0]]


def test_each_turn_has_the_mean_over_its_own_tokens() -> None:
    advantages = [[[np.array([1.0, 3.0, 5.0])], [np.array([0.0, 0.0, -1.0])]]]
    assert turn_means([episodes()], advantages) == [[[2.0, 5.0], [0.0, -1.0]]]


def test_a_rollout_without_an_environment_has_no_turns() -> None:
    plain = group("a", [1.0, 0.0])
    assert turn_means([plain], estimate_rows([plain], ESTIMATOR)) == [[[], []]]


def test_a_reward_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        estimate_rows([group("a", [float("nan"), 1.0])], ESTIMATOR)


@pytest.mark.parametrize(
    "steps",
    [
        [{"step": "combine", "weights": {"choice": 1.0}}, "centre"],
        [{"step": "gate", "of": "count", "by": "choice"}, "centre"],
        [{"step": "minus_known"}],
        [{"step": "centre", "key": "subtask"}],
    ],
)
def test_a_step_without_groups_has_no_advantages_whatever_its_estimator_reads(
    steps: list[Any],
) -> None:
    """Dynamic sampling that meets no mixed group leaves none."""
    estimated = estimate_step([], find_estimator(steps))
    assert (estimated.rows, estimated.notes) == ([], [])
