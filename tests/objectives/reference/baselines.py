"""Algorithms that are a baseline and a token sum: they differ in the advantage."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean, pstdev

from tests.objectives.reference import Case, standardised, valid

Advantages = Callable[[Case], dict[int, float]]
"""Row -> A."""


def by_group(of_group: Callable[[list[float]], list[float]]) -> Advantages:
    def advantages(case: Case) -> dict[int, float]:
        result: dict[int, float] = {}
        for rows in case.groups():
            rewards = [case.rewards[b] for b in rows]
            values = of_group(rewards) if valid(rewards) else [0.0] * len(rows)
            result |= dict(zip(rows, values, strict=True))
        return result

    return advantages


LONGEST = 64
"""The configured longest completion."""


@by_group
def above_the_others(rewards: list[float]) -> list[float]:
    return [r - mean(rewards[:k] + rewards[k + 1 :]) for k, r in enumerate(rewards)]


@by_group
def above_the_mean(rewards: list[float]) -> list[float]:
    return [r - mean(rewards) for r in rewards]


def whitened(case: Case) -> dict[int, float]:
    """Centred, then over all tokens of the step."""
    centred = above_the_mean(case)
    by_token = [a for b, a in centred.items() for _ in case.logprobs[b]]
    if not by_token or max(by_token) - min(by_token) <= 1e-6:
        return dict.fromkeys(centred, 0.0)
    center, spread = mean(by_token), pstdev(by_token) + 1e-6
    return {b: (a - center) / spread for b, a in centred.items()}


def token_sums(
    case: Case, advantages: dict[int, float], low: float = 0.2, high: float = 0.2
) -> list[float]:
    """Σ_t −min(ρA, clip(ρ)A) of each row."""
    sums: list[float] = []
    for b, a in sorted(advantages.items()):
        total = 0.0
        for new, old in zip(case.logprobs[b], case.old[b], strict=True):
            ratio = math.exp(new - old)
            if a > 0:
                total -= a * min(ratio, 1 + high)
            else:
                total -= a * max(ratio, 1 - low)
        sums.append(total)
    return sums


def token_mean(case: Case, advantages: dict[int, float]) -> float:
    tokens = sum(map(len, case.logprobs))
    return sum(token_sums(case, advantages)) / tokens if tokens else 0.0


def above_the_greedy(case: Case) -> dict[int, float]:
    gaps = {b: r - g for b, (r, g) in enumerate(zip(case.rewards, greedy(case), strict=True))}
    return {b: gap if abs(gap) > 1e-6 else 0.0 for b, gap in gaps.items()}


def greedy(case: Case) -> list[float]:
    """A reward of a greedy answer to each row's sample, made up."""
    return [0.3 + 0.2 * (g % 3) for g in case.group]


def dr_grpo(case: Case) -> float:
    """Σ / (rollouts · L)"""
    return sum(token_sums(case, above_the_mean(case))) / (len(case.rewards) * LONGEST)


def soft_penalty(length: int, longest: float, buffer: float) -> float:
    """DAPO's Eq. 13: 0, then falling over the buffer, −1 at and beyond the longest."""
    if length <= longest - buffer:
        return 0.0
    return (longest - buffer - length) / buffer if length <= longest else -1.0


def penalised(case: Case, longest: int = LONGEST) -> dict[int, float]:
    """Group-standardised after the penalty, the buffer a fifth of the longest."""
    result: dict[int, float] = {}
    for rows in case.groups():
        rewards = [
            case.rewards[b] + soft_penalty(len(case.logprobs[b]), longest, longest / 5)
            for b in rows
        ]
        result |= dict(zip(rows, standardised(rewards), strict=True))
    return result


def dapo(case: Case) -> float:
    tokens = sum(map(len, case.logprobs))
    return sum(token_sums(case, penalised(case), high=0.28)) / max(tokens, 1)


def plain_rewards(case: Case) -> float:
    """−r_i times the mean log-prob of each answer, averaged over the answers."""
    losses = [
        -r * mean(row) if row else 0.0 for r, row in zip(case.rewards, case.logprobs, strict=True)
    ]
    return mean(losses)


def clipped_rewards(case: Case) -> float:
    """The clipped ratio times the reward itself, a mean over each answer's tokens, averaged over the answers."""
    sums = token_sums(case, dict(enumerate(case.rewards)))
    return mean(s / max(len(row), 1) for s, row in zip(sums, case.logprobs, strict=True))


REFERENCES = {
    "raft": plain_rewards,
    "reinforce_rej": clipped_rewards,
    "dapo": dapo,
    "dapo_overlong_filter": dapo,  # where nothing is truncated; see test_dapo.py
    "dr_grpo": dr_grpo,
    "remax": lambda case: token_mean(case, above_the_greedy(case)),
    "rloo": lambda case: token_mean(case, above_the_others(case)),
    "reinforce_pp": lambda case: token_mean(case, whitened(case)),
}

EXTRAS = {
    "dapo": lambda case: {"length": LONGEST},
    "dapo_overlong_filter": lambda case: {"length": LONGEST},
    "dr_grpo": lambda case: {"length": LONGEST},
    "remax": lambda case: {"greedy_rewards": greedy(case)},
}
