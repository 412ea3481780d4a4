"""Rewards whose calls fail: retries, and failures without an effect. R1-V's reward as it is published."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from vlrft.advantages import find_estimator
from vlrft.advantages.rows import estimate_rows, rollout_means
from vlrft.schema import DataError, Group, RewardError, Sample
from vlrft.scoring.rewards import score_groups
from vlrft.scoring.weighted import WeightedReward
from vlrft.testing.small_policies import group
from vlrft.trainer.step_metrics import _reward_metrics


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    made: list[float] = []
    monkeypatch.setattr("vlrft.scoring.failures.time.sleep", made.append)
    return made


def failing(times: int, error: BaseException) -> Callable[..., float]:
    """Fails so many times for each sample, then gives 1.0."""
    left: dict[str, int] = {}

    def judge(completion: str, sample: Sample) -> float:
        left[sample.id] = left.get(sample.id, times) - 1
        if left[sample.id] >= 0:
            raise error
        return 1.0

    return judge


def score_all(reward: WeightedReward, groups: list[Group]) -> list[Any]:
    return [r for g in score_groups([g.rollouts for g in groups], [reward]) for r in g]


def test_a_call_that_fails_is_made_again_after_growing_pauses(pauses: list[float]) -> None:
    reward = WeightedReward(
        name="judge", weight=1.0, function=failing(2, OSError("503")), retries=3
    )
    (rollout,) = score_all(reward, [group("a/1", [0.0])])
    assert (rollout.reward, rollout.retries, rollout.errors) == (1.0, {"judge": 2}, {})
    assert pauses == [0.5, 1.0]
    assert _reward_metrics([rollout], [reward])["reward/judge/retries"] == 2


def test_after_the_last_retry_on_error_counts(pauses: list[float]) -> None:
    reward = WeightedReward(
        name="judge", weight=1.0, function=failing(9, OSError("503")), retries=2
    )
    with pytest.raises(RewardError, match="a/1: reward judge raised OSError: 503"):
        score_all(reward, [group("a/1", [0.0])])
    assert pauses == [0.5, 1.0]


def test_an_unreadable_gold_answer_is_not_tried_again(pauses: list[float]) -> None:
    reward = WeightedReward(name="x", weight=1.0, function=failing(1, DataError("gold")), retries=2)
    with pytest.raises(DataError, match="gold"):
        score_all(reward, [group("a/1", [0.0])])
    assert pauses == []


def test_a_failure_that_does_not_apply_moves_no_advantage() -> None:
    def judge(completion: str, sample: Sample) -> float:
        return float(completion)  # fails for a text that is no number

    reward = WeightedReward(name="judge", weight=2.0, function=judge, on_error="none")
    texts = ["1", "0", "no number", "1"]
    rollouts = score_all(reward, [with_texts(texts)])
    assert [r.scores["judge"] for r in rollouts] == [1.0, 0.0, None, 1.0]
    rewards = [r.reward for r in rollouts]
    assert rewards == pytest.approx([2.0, 0.0, 4 / 3, 2.0])
    assert rewards[2] == pytest.approx(sum(rewards) / 4)
    assert "judge" in rollouts[2].errors
    assert _reward_metrics(rollouts, [reward])["reward/judge/errors"] == 1


def by_word(completion: str, sample: Sample) -> dict[str, float]:
    """Two parts; fails for a text that is no two numbers."""
    right, clear = completion.split()
    return {"right": float(right), "clear": float(clear)}


def short(completion: str, sample: Sample) -> float:
    return float(len(completion) < 9)


@pytest.mark.parametrize(
    "steps",
    [
        ["centre"],
        ["combine", "centre"],
        ["per_component"],
        [{"step": "gate", "of": "judge/right", "by": "short"}, "centre"],
        [{"step": "combine", "weights": {"judge/right": 2.0}}, "centre"],
        [{"step": "first_turns", "turn": ["judge/clear"]}],
        ["each_turn", "combine", "centre"],
    ],
    ids=str,
)
def test_a_failure_gets_no_advantage_from_the_reward_or_its_parts(steps: list[Any]) -> None:
    rewards = [
        WeightedReward(name="judge", weight=2.0, function=by_word, on_error="none"),
        WeightedReward(name="short", weight=1.0, function=short),
    ]
    texts = ["1 1", "0 0.5", "fail", "1 0"]
    scored = [tuple(g) for g in score_groups([with_texts(texts).rollouts], rewards)]
    group_ = replace(with_texts(texts), rollouts=scored[0])
    weights = {reward.name: reward.weight for reward in rewards}
    (advantages,) = rollout_means(
        estimate_rows([group_], find_estimator(steps), weights=weights, max_tokens=8)
    )
    assert advantages[2] == pytest.approx(0.0, abs=1e-12)
    assert min(advantages) < -0.1
    assert max(advantages) > 0.1


def test_where_all_calls_fail_the_reward_adds_nothing() -> None:
    reward = WeightedReward(
        name="judge", weight=1.0, function=failing(9, OSError("503")), on_error="none"
    )
    rollouts = score_all(reward, [group("a/1", [0.0, 0.0])])
    assert [(r.reward, r.scores["judge"]) for r in rollouts] == [(0.0, None)] * 2


def r1v_accuracy(completions: Any, solution: Any, **kwargs: Any) -> list[float]:
    """R1-V's rule: the tag of both texts, compared as strings; an exception counts 0.0, silently."""
    rewards = []
    for completion, sol in zip(completions, solution, strict=True):
        content, reward = completion[0]["content"], 0.0
        try:
            sol_match = re.search(r"<answer>(.*?)</answer>", sol)
            ground_truth = sol_match.group(1).strip() if sol_match else sol.strip()
            content_match = re.search(r"<answer>(.*?)</answer>", content)
            student = content_match.group(1).strip() if content_match else content.strip()
            if student == ground_truth:
                reward = 1.0
        except Exception:
            pass
        rewards.append(reward)
    return rewards


@pytest.mark.parametrize(("answer", "text"), [(7, "7"), ("145°", "145°"), (2.5, "2.5")])
def test_r1v_s_accuracy_reward_scores_numbers_that_are_typed_here(answer: Any, text: str) -> None:
    reward = WeightedReward(name="r1v", weight=1.0, function=r1v_accuracy)
    right = f"<think>I count.</think><answer> {text} </answer>"
    rollouts = score_all(reward, [with_texts([right, "<answer>8</answer>"], answer=answer)])
    assert [r.scores["r1v"] for r in rollouts] == [1.0, 0.0]


def with_texts(texts: list[str], answer: Any = "7") -> Group:
    """A group whose rollouts have these texts."""

    made = group("a/1", [0.0] * len(texts))
    sample = replace(made.sample, answer=answer)
    rollouts = []
    for rollout, text in zip(made.rollouts, texts, strict=True):
        (row,) = rollout.rows
        pieces = tuple(replace(p, text=text if p.sampled else p.text) for p in row.pieces)
        rollouts.append(replace(rollout, sample=sample, rows=(replace(row, pieces=pieces),)))
    return replace(made, sample=sample, rollouts=tuple(rollouts))
