"""The estimator input made of groups, and the spreading of advantages over tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from tests.advantages.steps import step_of
from vlrft.advantages import (
    ESTIMATORS,
    Estimator,
    EstimatorInput,
    estimate_advantages,
    estimator_input,
)
from vlrft.schema import Group, Piece, Prompt, RewardError, Rollout, TrainingRow, Turn
from vlrft.schema.errors import AdvantageError
from vlrft.testing.small_policies import group, sample

MINE = Estimator(name="mine", doc="The reward.")


def make_group(name: str, rollouts: Sequence[Mapping[str, Any]], **tags: str) -> Group:
    """A group; each rollout is a mapping of fields of Rollout."""
    one = sample(name, **tags)
    return Group(sample=one, rollouts=tuple(Rollout(sample=one, **r) for r in rollouts))


def row(*turns: tuple[int, Turn | None], inserted: int = 5, cut: bool = False) -> TrainingRow:
    """Sampled pieces of these lengths, with inserted ones in between."""
    pieces: list[Piece] = []
    for length, turn in turns:
        if pieces:
            pieces.append(Piece(ids=(1,) * inserted, text="", sampled=False))
        finish: Literal["length", "stop"] = "length" if cut else "stop"
        pieces.append(Piece(ids=(1,) * length, text="", finish=finish, turn=turn))
    return TrainingRow(prompt=Prompt(ids=(7,)), pieces=tuple(pieces))


def test_single_turns() -> None:
    inputs = estimator_input([group("a", [1.0, 0.5], [[1, 2], []]), group("b", [0.0])], {}, 9)
    assert inputs.values.tolist() == [1.0, 0.5, 0.0]
    assert inputs.keys["sample"].tolist() == [0, 0, 1]
    assert inputs.tokens.tolist() == inputs.turn_tokens.tolist() == [2, 0, 1]
    assert inputs.rollouts.tolist() == [0, 1, 2]
    assert (inputs.max_tokens, inputs.greedy) == (9, None)


def test_turns_with_their_rewards_and_anchors() -> None:
    hall, room = Turn(anchor="hall"), Turn(anchor="room", reward=1.0)
    inputs = estimator_input(
        [
            make_group("a", [
                {"rows": (row((2, hall)), row((3, room))), "reward": 1.0},
                {"rows": (
                    row((1, Turn(anchor="hall", reward=0.5, penalty=0.1, valid=False))),
                    row((1, Turn())),
                    row((4, Turn()), cut=True),
                )},
            ]),
            make_group("b", [
                {"rows": (row((2, Turn(anchor="hall", reward=0.25)), (3, Turn(anchor="room"))),)},
                {"rows": (row((2, None)), row((2, None)))},
            ]),
        ],
        {},
        8,
    )  # fmt: skip
    assert inputs.rollouts.tolist() == inputs.episodes.tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 3]
    assert inputs.places.tolist() == [0, 1, 0, 1, 2, 0, 1, 0, 1]
    assert inputs.turn_tokens.tolist() == [
        2,
        3,
        1,
        1,
        4,
        2,
        3,
        2,
        2,
    ]  # inserted tokens do not count
    assert inputs.tokens.tolist() == [5, 6, 5, 4]
    assert inputs.step_rewards.tolist() == [0.0, 1.0, 0.5, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0]
    assert inputs.penalties.tolist() == [0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert inputs.truncated.tolist() == [False, True, False, False]
    # one observation of one group is one anchor; a turn without an observation has its own
    assert inputs.anchors.tolist() == [0, 1, 0, 2, 3, 4, 5, 6, 7]


def test_components_are_kept_apart() -> None:
    scores: list[dict[str, float | None]] = [
        {"choice": 1.0, "boxes/iou": None, "tidy": float("nan")},
        {"choice": None, "boxes/iou": 0.5, "tidy": 1.0},
    ]
    rollouts: list[dict[str, Any]] = [
        {"rows": (row((1, None)),), "scores": row_scores, "reward": reward}
        for row_scores, reward in zip(scores, (2.0, 1.0), strict=True)
    ]
    inputs = estimator_input(
        [make_group("a", rollouts)], {"choice": 2.0, "boxes": 2.0, "absent": 1.0}, 8
    )
    by_name = {k: [None if np.isnan(x) else x for x in v] for k, v in inputs.scores.items()}
    assert by_name == {"choice": [1.0, None], "boxes/iou": [None, 0.5], "tidy": [None, 1.0]}
    assert inputs.weights == {"choice": 2.0, "boxes/iou": 2.0}


def test_the_rest_of_a_reward_beyond_its_scores_is_a_component() -> None:
    rollouts = [
        {"rows": (row((1, None)),), "scores": {"choice": 0.3}, "reward": 0.1 * 0.3 + earned}
        for earned in (0.0, 0.7)
    ]
    inputs = estimator_input([make_group("a", rollouts)], {"choice": 0.1}, 8)
    assert inputs.scores["environment"].tolist() == pytest.approx([0.0, 0.7])
    assert inputs.weights["environment"] == 1.0
    assert (
        "environment"
        not in estimator_input([make_group("a", rollouts[:1])], {"choice": 0.1}, 8).scores
    )


def test_what_a_reward_counts_for_a_failed_score_is_no_rest() -> None:
    one = {"rows": (row((1, None)),), "scores": {"judge": None, "tidy": 1.0}}
    failed = {**one, "reward": 1.9, "imputed": {"judge": 0.3}}
    other = {**one, "reward": 1.6, "scores": {"judge": 0.2, "tidy": 1.0}}
    inputs = estimator_input([make_group("a", [failed, other])], {"judge": 3.0, "tidy": 1.0}, 8)
    assert set(inputs.scores) == {"judge", "tidy"}
    assert np.isnan(inputs.scores["judge"][0])
    assert inputs.counted("judge").tolist() == [0.3, 0.2]


def test_the_rounding_of_a_weighted_sum_is_no_component() -> None:
    rollout = {
        "rows": (row((1, None)),),
        "scores": {"a": 0.1, "b": 0.2, "c": 0.3},
        "reward": 0.6,
    }
    inputs = estimator_input([make_group("a", [rollout])], {"a": 1.0, "b": 1.0, "c": 1.0}, 8)
    assert set(inputs.scores) == {"a", "b", "c"}


def test_tags_that_all_samples_have_are_keys() -> None:
    one = {"rows": (row((1, None)),)}
    groups = [
        make_group("a", [one, one], kind="count", sample="never", origin="x"),
        make_group("b", [one], kind="choice", sample="never"),
        make_group("c", [one], kind="count", sample="never"),
    ]
    keys = estimator_input(groups, {}, 8).keys
    assert {k: v.tolist() for k, v in keys.items()} == {
        "kind": [0, 0, 1, 0],
        "sample": [0, 0, 1, 2],
    }


def test_greedy_rewards_reach_every_rollout_of_their_group() -> None:
    inputs = estimator_input([group("a", [1.0, 0.5]), group("b", [0.0])], {}, 9, greedy=[0.5, 1.0])
    assert inputs.greedy is not None
    assert inputs.greedy.tolist() == [0.5, 0.5, 1.0]
    remax = estimate_advantages(inputs, ESTIMATORS["remax"])
    assert [a.tolist() for a in remax] == [[0.5], [0.0], [-1.0]]


def test_numbers_that_are_not_finite_name_the_sample() -> None:
    fine = group("aa", [1.0])
    with pytest.raises(RewardError, match=r"bb: the reward is not finite: \(nan, 1.0\)"):
        estimator_input([fine, group("bb", [float("nan"), 1.0])], {}, 8)
    with pytest.raises(RewardError, match="bb: the greedy answer's reward is inf"):
        estimator_input([fine, group("bb", [1.0])], {}, 8, greedy=[0.0, float("inf")])
    bad = make_group("cc", [{"rows": (row((1, None)),), "scores": {"choice": float("nan")}}])
    with pytest.raises(RewardError, match="cc: the reward choice is not finite: nan"):
        estimator_input([bad], {"choice": 1.0}, 8)


def test_a_number_for_each_action_token() -> None:
    inputs = step_of([2.0, -1.0], [0, 0], rollouts=[0, 1, 1], turn_tokens=[2, 0, 3])
    assert [a.tolist() for a in estimate_advantages(inputs, MINE)] == [
        [2.0, 2.0],
        [],
        [-1.0, -1.0, -1.0],
    ]
    by_turn = replace(inputs, by_turn=np.array([1.0, 5.0, 0.5]))
    assert [a.tolist() for a in estimate_advantages(by_turn, MINE)] == [[3.0, 3.0], [], [-0.5] * 3]
    factors = [np.array([1.0, 0.5]), np.array([]), np.array([0.0, 1.0, 2.0])]
    scaled = by_turn.scale_tokens(factors).scale_tokens([f * 2 for f in factors])
    assert [a.tolist() for a in estimate_advantages(scaled, MINE)] == [
        [6.0, 1.5],
        [],
        [0.0, -1.0, -4.0],
    ]


def test_a_step_of_ones_own_with_a_wrong_result_is_named() -> None:
    inputs = step_of([2.0], [0], turn_tokens=[2])
    with pytest.raises(AdvantageError, match="mine: 3 token factors for a turn of 2"):
        estimate_advantages(replace(inputs, token_factors=(np.ones(3),)), MINE)
    with pytest.raises(AdvantageError, match="mine: advantages are not finite"):
        estimate_advantages(replace(inputs, by_turn=np.array([np.nan])), MINE)


def test_an_estimator_may_compare_turns_at_equal_states() -> None:
    """GiGPO's form (arXiv 2505.10978): the episode's advantage plus that of the step among equal states."""

    def by_anchor(inputs: EstimatorInput) -> EstimatorInput:
        sums = np.bincount(inputs.anchors, weights=inputs.step_rewards)
        means = sums / np.bincount(inputs.anchors)
        return replace(inputs, by_turn=inputs.step_rewards - means[inputs.anchors])

    gigpo = Estimator(name="g", doc="", steps=(*ESTIMATORS["centred"].steps, by_anchor))
    inputs = step_of(
        [1.0, 0.0],
        [0, 0],
        rollouts=[0, 0, 1],
        turn_tokens=[1, 2, 1],
        step_rewards=np.array([0.0, 1.0, 0.5]),
        anchors=np.array([0, 1, 0]),
    )
    assert [a.tolist() for a in estimate_advantages(inputs, gigpo)] == [[0.25], [0.5, 0.5], [-0.25]]
