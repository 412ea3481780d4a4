"""GRPO's clipped loss with the advantages of other methods, which tests/advantages/step_reference.py has."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean, stdev
from typing import Any

from tests.advantages import step_reference
from tests.advantages.reference import Numbers, Toy, differ
from tests.objectives.reference import Case

LONGEST = 64


def toy_of(case: Case) -> Toy:
    return Toy(
        rewards=case.rewards,
        group=case.group,
        tokens=[len(row) for row in case.logprobs],
        greedy=[],
        scores={},
        max_tokens=LONGEST,
    )


def clipped(
    case: Case, advantages: Numbers, low: float = 0.2, high: float = 0.2, constant: bool = False
) -> float:
    """mean over rollouts of the mean over tokens, or of the sum over the longest completion"""
    total = 0.0
    for b, a in enumerate(advantages):
        row = 0.0
        for lp, old in zip(case.logprobs[b], case.old[b], strict=True):
            ratio = math.exp(lp - old)
            row -= min(ratio * a, min(max(ratio, 1 - low), 1 + high) * a)
        total += row / (LONGEST if constant else max(len(case.logprobs[b]), 1))
    return total / len(advantages)


def ngrpo(case: Case) -> float:
    out = [0.0] * len(case.rewards)
    for g in case.groups():
        rewards = [*(case.rewards[b] for b in g), 1.0]
        if differ(rewards):
            for b in g:
                out[b] = (case.rewards[b] - fmean(rewards)) / (stdev(rewards) + 1e-6)
    return clipped(case, out, low=0.16, high=0.24)


def s_grpo(case: Case) -> float:
    return clipped(case, step_reference.s_grpo_at(toy_of(case), 0.1), constant=True)


def with_step(rule: Callable[[Toy], Numbers]) -> Callable[[Case], float]:
    return lambda case: clipped(case, rule(toy_of(case)))


def _length(case: Case) -> dict[str, Any]:
    return {"length": LONGEST}


REFERENCES: dict[str, Callable[[Case], float]] = {
    "mapo": with_step(step_reference.mapo),
    "bnpo": with_step(step_reference.bnpo),
    "ngrpo": ngrpo,
    "s_grpo": s_grpo,
    "grpo_lead": with_step(lambda toy: step_reference.lead(toy, 4000)),
}
EXTRAS = {"s_grpo": _length}
