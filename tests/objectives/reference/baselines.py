"""Methods that are a baseline and a token sum: what differs is the advantage."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean, stdev

from tests.objectives.reference import Case, valid

Advantages = Callable[[Case], dict[int, float]]
"""Row -> A."""


def by_group(of_group: Callable[[list[float]], list[float]]) -> Advantages:
    def advantages(case: Case) -> dict[int, float]:
        found: dict[int, float] = {}
        for rows in case.groups():
            rewards = [case.rewards[b] for b in rows]
            values = of_group(rewards) if valid(rewards) else [0.0] * len(rows)
            found |= dict(zip(rows, values, strict=True))
        return found

    return advantages


@by_group
def above_the_others(rewards: list[float]) -> list[float]:
    return [r - mean(rewards[:k] + rewards[k + 1 :]) for k, r in enumerate(rewards)]


@by_group
def above_the_mean(rewards: list[float]) -> list[float]:
    return [r - mean(rewards) for r in rewards]


def whitened(case: Case) -> dict[int, float]:
    """Centred, then over the step; a group whose rewards do not differ counts with its zeros and keeps them."""
    centred = above_the_mean(case)
    values = list(centred.values())
    if max(values) - min(values) <= 1e-6:
        return dict.fromkeys(centred, 0.0)
    center, spread = mean(values), stdev(values) + 1e-6
    taught = [b for g in case.groups() if valid([case.rewards[b] for b in g]) for b in g]
    return {b: (a - center) / spread if b in taught else 0.0 for b, a in centred.items()}


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


REFERENCES = {
    "rloo": lambda case: token_mean(case, above_the_others(case)),
    "reinforce_pp": lambda case: token_mean(case, whitened(case)),
}
