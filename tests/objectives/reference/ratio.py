"""Algorithms with an importance ratio, with one term for a row where the ratio is that of the row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import mean

from tests.objectives.reference import Case, standardised

Row = Sequence[float]


def gmpo_row(
    row: Row,
    old: Row,
    a: float,
    *,
    clip: str = "token",
    normalise: bool = True,
    aggregate: str = "geometric",
    low: float = 0.4,
    high: float = 0.4,
) -> float:
    """The loss of one row, from products of ratios instead of sums of logarithms; 0 without tokens."""
    n = len(row)
    if not n:
        return 0.0

    def clip_ratio(ratio: float) -> float:
        return min(ratio, math.exp(high)) if a >= 0 else max(ratio, math.exp(-low))

    ratios = [math.exp(new - before) for new, before in zip(row, old, strict=True)]
    if clip == "token":
        ratios = [clip_ratio(ratio) for ratio in ratios]
    product = math.prod(ratios)
    if clip == "sequence":
        product = clip_ratio(product)
    if not normalise:
        return -a * product
    if aggregate == "geometric":
        return -a * math.pow(product, 1 / n)
    if aggregate == "arithmetic":
        return -a * sum(ratios) / n
    if aggregate == "harmonic":
        return -a * n / sum(1 / ratio for ratio in ratios)
    inner = sorted(ratios)[math.floor(n / 4) : math.ceil(3 * n / 4)]  # ranks from 1: ⌊n/4⌋+1 …
    return -a * sum(inner) / len(inner)


def gspo_row(row: Row, old: Row, a: float, low: float = 3e-4, high: float = 4e-4) -> float:
    if not row:
        return 0.0
    s = math.pow(math.exp(math.fsum(row)) / math.exp(math.fsum(old)), 1 / len(row))
    clipped = min(max(s, 1 - low), 1 + high)
    return -min(s * a, clipped * a)


def mean_of_rows(case: Case, loss: Callable[[Row, Row, float], float]) -> float:
    """Group-standardised advantages; the mean over all rollouts of the step."""
    losses = [
        loss(case.logprobs[b], case.old[b], a)
        for g in case.groups()
        for b, a in zip(g, standardised([case.rewards[b] for b in g]), strict=True)
    ]
    return mean(losses)


REFERENCES = {
    "gmpo": lambda case: mean_of_rows(case, gmpo_row),
    "gspo": lambda case: mean_of_rows(case, gspo_row),
}
