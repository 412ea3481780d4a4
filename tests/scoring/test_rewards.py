"""Weighted sums of rewards, and rewards that misbehave."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import pytest

from tests.fakes.policies import group
from vlrft.schema import DataError, Reward, RewardError, Rollout, Sample, Score
from vlrft.scoring.rewards import WeightedReward, score


def played(reward: float = 0.0, scores: Mapping[str, float | None] | None = None) -> Rollout:
    rollout = group("cats/3", [reward]).rollouts[0]
    return dataclasses.replace(rollout, scores=scores or {})


def giving(value: object) -> Reward:
    def reward(completion: str, sample: Sample) -> Score:
        return value  # type: ignore[return-value]

    return reward


def named(name: str, weight: float, value: object) -> WeightedReward:
    return WeightedReward(name=name, weight=weight, function=giving(value))


def test_the_total_is_the_weighted_sum_of_what_applies() -> None:
    found = score(played(), [named("a", 1.0, 0.5), named("b", 2.0, None), named("c", 0.1, 1)])
    assert found.reward == pytest.approx(0.6)
    assert found.scores == {"a": 0.5, "b": None, "c": 1.0}


def test_named_parts_share_the_weight() -> None:
    found = score(played(), [named("a", 0.5, {"x": 1.0, "y": None, "z": True})])
    assert found.reward == pytest.approx(1.0)
    assert found.scores == {"a/x": 1.0, "a/y": None, "a/z": 1.0}


def test_rewards_come_on_top_of_the_environment_s() -> None:
    found = score(played(2.0, {"success": 1.0}), [named("a", 1.0, 0.5)])
    assert found.reward == pytest.approx(2.5)
    assert found.scores == {"success": 1.0, "a": 0.5}


def test_no_reward_leaves_the_rollout_as_it_was() -> None:
    assert score(played(2.0), []) == played(2.0)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (math.nan, "returned nan"),
        (math.inf, "returned inf"),
        ({"part": -math.inf}, "returned -inf"),
        ("1.0", "returned a str"),
        ({"part": [1.0]}, "returned a list"),
    ],
)
def test_what_is_no_finite_number_names_sample_and_reward(value: object, what: str) -> None:
    with pytest.raises(RewardError, match=f"sample cats/3: reward mine {what}"):
        score(played(), [named("mine", 0.0, value)])


def test_a_reward_that_raises_names_sample_and_reward_in_one_line() -> None:
    def broken(completion: str, sample: Sample) -> Score:
        raise KeyError("first\nsecond" + "x" * 10_000)

    with pytest.raises(RewardError, match="sample cats/3: reward mine raised KeyError") as caught:
        score(played(), [WeightedReward(name="mine", weight=1.0, function=broken)])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_reward_that_raises_nothing_but_a_class() -> None:
    def broken(completion: str, sample: Sample) -> Score:
        raise ZeroDivisionError

    with pytest.raises(RewardError, match="raised ZeroDivisionError"):
        score(played(), [WeightedReward(name="mine", weight=1.0, function=broken)])


def test_an_unreadable_gold_answer_stays_a_data_error() -> None:
    def unreadable(completion: str, sample: Sample) -> Score:
        raise DataError(f"sample {sample.id}: gold answer None")

    with pytest.raises(DataError, match="cats/3"):
        score(played(), [WeightedReward(name="mine", weight=1.0, function=unreadable)])


def test_two_scores_of_one_name_are_refused() -> None:
    with pytest.raises(RewardError, match="score 'a'"):
        score(played(0.0, {"a": 1.0}), [named("a", 1.0, 1.0)])
