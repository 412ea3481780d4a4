"""Weighted sums of rewards, and rewards that misbehave."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from vlrft.schema import DataError, Reward, RewardError, Rollout, Sample, Score
from vlrft.scoring.rewards import score
from vlrft.scoring.weighted import WeightedReward
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


class Contrary:
    def tolist(self) -> float:
        raise ValueError("no")


class ContraryParts(Mapping[str, float]):
    def __getitem__(self, key: str) -> float:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter("a")

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (True, 1.0),
        (Fraction(1, 4), 0.25),
        (np.bool_(True), 1.0),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3.0),
        (np.array(0.5), 0.5),
        (torch.tensor(0.5, requires_grad=True), 0.5),
        (10**15, 1e15),
    ],
)
def test_numbers_of_every_library_are_read(value: object, number: float) -> None:
    scored = score(rollout(), [weighted("a", 1.0, value)])
    assert scored.scores == {"a": number}
    assert type(scored.reward) is float


def test_a_weighted_reward_that_no_step_can_use_names_reward_weight_and_sample() -> None:
    message = r"sample cats/3: reward a returned 1e\+20, with its weight 1e\+20 a reward beyond"
    with pytest.raises(RewardError, match=message):
        score(rollout(), [weighted("a", 1e20, 1e20)])


@pytest.mark.parametrize("value", [10**400, 1e300])
def test_on_error_covers_numbers_out_of_range(value: object) -> None:
    reward = dataclasses.replace(weighted("a", 1.0, value), on_error="zero")
    scored = score(rollout(), [reward])
    assert scored.reward == 0.0
    assert "sample cats/3: reward a returned" in scored.errors["a"]


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Rude(BaseException):
    pass


def raising(error: BaseException) -> WeightedReward:
    def reward(completion: str, sample: Sample) -> Score:
        raise error

    return WeightedReward(name="mine", weight=1.0, function=reward)


def awaiting(error: BaseException) -> WeightedReward:
    async def reward(completion: str, sample: Sample) -> float:
        raise error

    return WeightedReward(name="mine", weight=1.0, function=reward)


@pytest.mark.parametrize("make", [raising, awaiting])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SystemExit(3), "raised SystemExit: 3"),
        (Rude("no"), "raised Rude: no"),
        (Mute(), "raised Mute: no message: its __str__ raised RuntimeError"),
        (GeneratorExit(), "raised GeneratorExit"),
    ],
)
def test_a_reward_cannot_end_the_run_without_a_word(
    make: Callable[[BaseException], WeightedReward], error: BaseException, message: str
) -> None:
    with pytest.raises(RewardError, match=f"sample cats/3: reward mine {message}"):
        score(rollout(), [make(error)])
    scored = score(rollout(), [dataclasses.replace(make(error), on_error="zero")])
    assert message in scored.errors["mine"]


def test_ctrl_c_in_a_reward_is_no_error_of_the_reward() -> None:
    with pytest.raises(KeyboardInterrupt):
        score(rollout(), [dataclasses.replace(raising(KeyboardInterrupt()), on_error="zero")])


def test_a_reward_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    def state() -> tuple[object, ...]:
        return os.getcwd(), sys.getrecursionlimit(), signal.getsignal(signal.SIGINT)

    def meddles(completion: str, sample: Sample) -> float:
        os.chdir(tmp_path)
        sys.setrecursionlimit(5000)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return 1.0

    before = state()
    assert score(rollout(), [WeightedReward(name="m", weight=1.0, function=meddles)]).reward == 1.0
    assert state() == before


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "returned nan"),
        (math.inf, "returned inf"),
        ({"part": -math.inf}, "returned -inf"),
        ("1.0", "returned a str"),
        ({"part": [1.0]}, "returned a list"),
        (10**400, r"returned a number beyond ±1e\+30 \(int\)"),
        (-1e308, r"returned -1e\+308, a number beyond ±1e\+30"),
        (Decimal(1), "returned a Decimal, not a number"),
        (1j, "returned a complex, not a number"),
        (np.array([1.0]), "returned a ndarray, not a number"),
        (np.float32("nan"), "returned nan"),
        (torch.tensor(torch.inf), "returned inf"),
        (Contrary(), r"returned a Contrary that cannot be read as a number \(ValueError: no\)"),
        (ContraryParts(), r"returned a ContraryParts that cannot be read \(KeyError: 'a'\)"),
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
