"""Weighted sums of rewards, and rewards that misbehave."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import pytest

from vlrft.schema import DataError, Reward, RewardError, Rollout, Sample, Score
from vlrft.scoring.rewards import WeightedReward, score
from vlrft.testing.small_policies import group


def rollout(reward: float = 0.0, scores: Mapping[str, float | None] | None = None) -> Rollout:
    first = group("cats/3", [reward]).rollouts[0]
    return dataclasses.replace(first, scores=scores or {})


def constant_reward(value: object) -> Reward:
    def reward(completion: str, sample: Sample) -> Score:
        return value  # type: ignore[return-value]

    return reward


def weighted(name: str, weight: float, value: object) -> WeightedReward:
    return WeightedReward(name=name, weight=weight, function=constant_reward(value))


def test_the_total_is_the_weighted_sum_of_what_applies() -> None:
    scored = score(
        rollout(), [weighted("a", 1.0, 0.5), weighted("b", 2.0, None), weighted("c", 0.1, 1)]
    )
    assert scored.reward == pytest.approx(0.6)
    assert scored.scores == {"a": 0.5, "b": None, "c": 1.0}


def test_named_parts_share_the_weight() -> None:
    scored = score(rollout(), [weighted("a", 0.5, {"x": 1.0, "y": None, "z": True})])
    assert scored.reward == pytest.approx(1.0)
    assert scored.scores == {"a/x": 1.0, "a/y": None, "a/z": 1.0}


def test_rewards_are_added_to_those_of_the_environment() -> None:
    scored = score(rollout(2.0, {"success": 1.0}), [weighted("a", 1.0, 0.5)])
    assert scored.reward == pytest.approx(2.5)
    assert scored.scores == {"success": 1.0, "a": 0.5}


def test_a_rollout_without_rewards_is_unchanged() -> None:
    assert score(rollout(2.0), []) == rollout(2.0)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "returned nan"),
        (math.inf, "returned inf"),
        ({"part": -math.inf}, "returned -inf"),
        ("1.0", "returned a str"),
        ({"part": [1.0]}, "returned a list"),
    ],
)
def test_the_error_for_a_value_that_is_no_finite_number_names_sample_and_reward(
    value: object, message: str
) -> None:
    with pytest.raises(RewardError, match=f"sample cats/3: reward mine {message}"):
        score(rollout(), [weighted("mine", 0.0, value)])


def test_the_error_of_a_reward_that_raises_names_sample_and_reward_in_one_line() -> None:
    def broken(completion: str, sample: Sample) -> Score:
        raise KeyError("first\nsecond" + "x" * 10_000)

    with pytest.raises(RewardError, match="sample cats/3: reward mine raised KeyError") as caught:
        score(rollout(), [WeightedReward(name="mine", weight=1.0, function=broken)])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_reward_may_raise_a_class_without_a_message() -> None:
    def broken(completion: str, sample: Sample) -> Score:
        raise ZeroDivisionError

    with pytest.raises(RewardError, match="raised ZeroDivisionError"):
        score(rollout(), [WeightedReward(name="mine", weight=1.0, function=broken)])


def test_an_unreadable_gold_answer_stays_a_data_error() -> None:
    def unreadable(completion: str, sample: Sample) -> Score:
        raise DataError(f"sample {sample.id}: gold answer None")

    with pytest.raises(DataError, match="cats/3"):
        score(rollout(), [WeightedReward(name="mine", weight=1.0, function=unreadable)])


def test_two_scores_with_the_same_name_are_refused() -> None:
    with pytest.raises(RewardError, match="score 'a'"):
        score(rollout(0.0, {"a": 1.0}), [weighted("a", 1.0, 1.0)])
