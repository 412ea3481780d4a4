"""Rewards that read how far training is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vlrft.plugins.reward_signature import signature_of
from vlrft.schema import Rollout, Sample
from vlrft.scoring.calls import call_in_worker
from vlrft.scoring.reward_input import RewardInput
from vlrft.scoring.rewards import score_groups
from vlrft.scoring.weighted import WeightedReward
from vlrft.testing.small_policies import group, sample


def by_rollout(completion: str, sample: Sample, progress: float) -> float:
    return progress


def by_group(completions: list[str], progress: float, sample: Sample) -> list[float]:
    return [progress] * len(completions)


def by_batch(completions: list[str], samples: list[Sample], *, progress: float) -> list[float]:
    return [progress] * len(completions)


def as_in_trl(completion_ids: list[list[int]], progress: float) -> list[float]:
    return [progress] * len(completion_ids)


async def later(completion: str, sample: Sample, progress: float) -> float:
    return progress


def by_default(completion: str, sample: Sample, progress: float = 0.5) -> float:
    return progress


def of_nothing(completion: str, sample: Sample, **more: float) -> float:
    return more.get("progress", 0.5)


def of_all_columns(completions: list[str], **columns: Any) -> list[float]:
    return [float("progress" in columns)] * len(completions)


def scores(function: Callable[..., Any], *progress: float) -> list[float]:
    rollouts: list[list[Rollout]] = [list(group(name, [0.0, 0.0]).rollouts) for name in "ab"]
    reward = WeightedReward(name="when", weight=1.0, function=function)
    return [r.reward for rows in score_groups(rollouts, [reward], *progress) for r in rows]


@pytest.mark.parametrize("function", [by_rollout, by_group, by_batch, as_in_trl, later, by_default])
def test_a_reward_that_asks_for_it_gets_the_share_of_the_stage_that_is_done(
    function: Callable[..., Any],
) -> None:
    assert signature_of(function).progress
    assert scores(function, 0.25) == [0.25] * 4
    assert scores(function) == [1.0] * 4  # outside of training


@pytest.mark.parametrize(("function", "score"), [(of_nothing, 0.5), (of_all_columns, 0.0)])
def test_a_reward_that_does_not_ask_for_it_is_called_as_ever(
    function: Callable[..., Any], score: float
) -> None:
    assert not signature_of(function).progress
    assert scores(function, 0.25) == [score] * 4


def test_a_column_of_the_data_with_that_name_goes_first() -> None:
    def own(completions: list[str], progress: list[str]) -> list[float]:
        return [float(value) for value in progress]

    asked = sample("q", 1, progress="7")
    reward = WeightedReward(name="own", weight=1.0, function=own)
    (rollout,) = group("q", [0.0]).rollouts
    (scored,) = score_groups([[replace(rollout, sample=asked)]], [reward], 0.25)
    assert scored[0].reward == 7.0


def test_workers_get_it_too(tmp_path: Path) -> None:
    (tmp_path / "when.py").write_text(
        "def when(completion, sample, progress):\n    return progress\n"
    )
    inputs = [RewardInput("", sample("q"), (), 0.75)]
    assert call_in_worker(f"{tmp_path / 'when.py'}:when", False, inputs) == 0.75
