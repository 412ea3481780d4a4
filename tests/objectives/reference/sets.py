"""Objectives on the right and wrong answers of a group, and on its pairs of levels."""

from __future__ import annotations

import math
from statistics import mean
from typing import Any

from tests.objectives.reference import Case, valid

LONGEST = 64


def disco_at(
    case: Case,
    point: Case,
    *,
    length: float | None = None,
    tau: float = 10.0,
    by_ratio: bool = False,
    wrong_mean: bool = False,
    low_variance: bool = False,
    beta: float = 1000.0,
    delta: float = 1e-4,
) -> float:
    """The loss at `case` with the weight of the hinge taken at `point`."""

    def score(b: int) -> float:
        pairs = zip(case.logprobs[b], case.old[b], strict=True)
        return mean(math.exp(x - y) if by_ratio else x for x, y in pairs)

    def divergence(at: Case, g: list[int]) -> float:
        moved = [x - y for b in g for x, y in zip(at.logprobs[b], at.old[b], strict=True)]
        if not moved:
            return 0.0
        return mean(math.exp(d) - 1 - d if low_variance else -d for d in moved)

    total, groups = 0.0, case.groups()
    for g in groups:
        full = [b for b in g if case.logprobs[b]]
        right = [b for b in full if case.rewards[b] >= 1.0]
        wrong = [b for b in full if case.rewards[b] <= 0.0]
        # a group is mixed by its rewards; empty completions mark it without taking part
        if right and wrong:
            weights = [1.0] * len(right)
            if length is not None:
                weights = [math.exp((1 - len(case.logprobs[b]) / LONGEST) / length) for b in right]
            gain = sum(w * score(b) for w, b in zip(weights, right, strict=True)) / sum(weights)
            if wrong_mean:
                loss = mean(score(b) for b in wrong)
            else:
                loss = tau * math.log(mean(math.exp(score(b) / tau) for b in wrong))
            total -= gain - loss
        if any(case.logprobs[b] for b in g):
            excess = max(beta * (divergence(point, g) - delta), 0.0)
            total += excess * divergence(case, g)
    return total / len(groups)


def disco(case: Case) -> float:
    return disco_at(case, case)


def drpo_at(case: Case, point: Case) -> float:
    return disco_at(case, point, length=0.1)


def drpo(case: Case) -> float:
    return drpo_at(case, case)


def trpa(case: Case, beta: float = 0.1, anisotropy: float = 2.5, kappa: float = 0.001) -> float:
    total, compared = 0.0, 0
    for g in case.groups():
        compared += valid([case.rewards[b] for b in g])
        full = [b for b in g if case.logprobs[b]]
        moved = {
            b: mean(x - y for x, y in zip(case.logprobs[b], case.ref[b], strict=True)) for b in full
        }
        losses: list[float] = []
        for hi in full:
            for lo in full:
                if case.rewards[hi] - case.rewards[lo] > 1e-6:
                    scale = anisotropy if case.rewards[hi] >= 1.0 else 1.0
                    h = beta * scale * (moved[hi] - moved[lo])
                    losses.append(math.log1p(math.exp(-h)))
        if losses:
            penalties = [
                math.exp(y - x) - (y - x) - 1
                for b in full
                for x, y in zip(case.logprobs[b], case.old[b], strict=True)
            ]
            total += mean(losses) + kappa * mean(penalties)
    return total / compared if compared else 0.0


def _length(case: Case) -> dict[str, Any]:
    return {"length": LONGEST}


REFERENCES = {"disco": disco, "drpo": drpo, "trpa": trpa}
FROZEN = {"disco": disco_at, "drpo": drpo_at}
EXTRAS = {"drpo": _length}
