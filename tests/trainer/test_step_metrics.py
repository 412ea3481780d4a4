"""Metrics of a step's groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from vlrft.schema import Group, best_score
from vlrft.scoring.weighted import WeightedReward
from vlrft.selection.collect import Collected
from vlrft.testing.small_policies import group
from vlrft.trainer.step_metrics import Timer, step_metrics


def right(completion: str, sample: Any) -> float:
    return 1.0


@best_score(1.5)
def generous(completion: str, sample: Any) -> float:
    return 1.5


@best_score(0.0)
def penalty(completion: str, sample: Any) -> float:
    return -0.5


def scored(*scores: Mapping[str, float | None]) -> Group:
    one = group("a", [sum(v or 0.0 for v in s.values()) for s in scores])
    rollouts = [replace(r, scores=s) for r, s in zip(one.rollouts, scores, strict=True)]
    return replace(one, rollouts=tuple(rollouts))


def metrics(groups: Sequence[Group], **weights: float) -> dict[str, float]:
    functions = {"right": right, "generous": generous, "penalty": penalty}
    rewards = [WeightedReward(name=n, weight=w, function=functions[n]) for n, w in weights.items()]
    collected = Collected(groups=tuple(groups), sampled=tuple(groups), attempts=1)
    timer = Timer()
    for part in ("rollout", "update"):
        with timer(part):
            pass
    return step_metrics(collected, [], [], {"loss": 0.5}, rewards, timer)


def test_a_group_is_solved_when_every_score_is_the_best_of_its_reward() -> None:
    solved = scored({"right": 1.0, "penalty": 0.0}, {"right": 1.0, "penalty": 0.0})
    partly = scored({"right": 1.0, "penalty": 0.0}, {"right": 1.0, "penalty": -0.5})
    unsolved = scored({"right": 0.0, "penalty": 0.0}, {"right": 1.0, "penalty": -0.1})
    both = metrics([solved, partly, partly, unsolved], right=1.0, penalty=0.2)
    assert (both["groups/solved_all"], both["groups/solved_none"]) == (0.25, 0.25)


def test_a_reward_that_states_a_best_above_1_is_not_solved_by_1() -> None:
    groups = [scored({"generous": 1.5}, {"generous": 1.5}), scored({"generous": 1.0})]
    assert metrics(groups, generous=0.5)["groups/solved_all"] == 0.5


def test_each_part_of_a_reward_has_its_best_score_and_what_does_not_apply_is_left_out() -> None:
    groups = [scored({"right/a": 1.0, "right/b": None}), scored({"right/a": 1.0, "right/b": 0.5})]
    assert metrics(groups, right=1.0)["groups/solved_all"] == 0.5


@pytest.mark.parametrize("weights", [{}, {"right": -1.0}])
def test_without_a_known_best_score_no_group_counts_as_solved(weights: dict[str, float]) -> None:
    assert "groups/solved_all" not in metrics([scored({"right": 1.0})], **weights)


def test_a_score_above_the_best_shows_that_the_best_is_not_known() -> None:
    assert "groups/solved_all" not in metrics([scored({"right": 1.2}, {"right": 1.0})], right=1.0)


def test_scores_of_an_environment_are_episode_metrics() -> None:
    values = metrics([scored({"right": 1.0, "won": 0.0}, {"right": 0.0, "won": 1.0})], right=1.0)
    assert (values["reward/right"], values["episode/won"], values["loss"]) == (0.5, 0.5, 0.5)
