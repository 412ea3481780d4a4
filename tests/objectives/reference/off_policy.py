"""Objectives on the ratio without a plain clip: parabola, dynamic bounds, REC's ranges and weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean, stdev

from tests.advantages.reference import differ
from tests.objectives.reference import Case, centred, standardised


def simple_po(case: Case, epsilon: float = 0.2) -> float:
    """mean over rollouts of the mean over tokens of −[ρA − |A|/(2ε)(ρ−1)²]"""
    rows: list[float] = []
    for g in case.groups():
        for b, a in zip(g, standardised([case.rewards[b] for b in g]), strict=True):
            terms = [
                -(math.exp(lp - old) * a - abs(a) / (2 * epsilon) * (math.exp(lp - old) - 1) ** 2)
                for lp, old in zip(case.logprobs[b], case.old[b], strict=True)
            ]
            rows.append(mean(terms) if terms else 0.0)
    return mean(rows)


def dcpo_clip(case: Case, low: float = 0.2, high: float = 0.28, cap: float = 10.0) -> float:
    """The bounds are the roots of ρ(1 − ρ)q = ε below 1 and ρ(ρ − 1)q = ε above it."""
    return _dynamically_clipped(case, standardised, low, high, cap)


def dcpo(case: Case) -> float:
    """The same at a prompt's first visit, without an ε beside the deviation."""

    def exact(rewards: list[float]) -> list[float]:
        if not differ(rewards):
            return [0.0] * len(rewards)
        return [(r - mean(rewards)) / stdev(rewards) for r in rewards]

    return _dynamically_clipped(case, exact)


def _dynamically_clipped(
    case: Case,
    advantages: Callable[[list[float]], list[float]],
    low: float = 0.2,
    high: float = 0.28,
    cap: float = 10.0,
) -> float:
    rows: list[float] = []
    for g in case.groups():
        for b, a in zip(g, advantages([case.rewards[b] for b in g]), strict=True):
            terms: list[float] = []
            for lp, old in zip(case.logprobs[b], case.old[b], strict=True):
                q, ratio = math.exp(old), math.exp(lp - old)
                inside = q * q - 4 * q * low
                least = (q + math.sqrt(inside)) / (2 * q) if inside > 0 else 0.5
                most = min((q + math.sqrt(q * q + 4 * q * high)) / (2 * q), cap)
                term = max(-a * ratio, -a * min(max(ratio, least), most))
                terms.append(min(term, -a * cap) if a < 0 else term)
            rows.append(mean(terms) if terms else 0.0)
    return mean(rows)


def rec(case: Case) -> float:
    return rec_at(case, case)


def rec_at(
    case: Case,
    point: Case,
    range_: str = "one_side",
    weight: str = "one",
    regularizer: str = "none",
    tau: float = 0.0,
    by_row: bool = False,
    low: float = 0.2,
    high: float = 0.2,
    far_low: float = 0.6,
    far_high: float = 2.0,
) -> float:
    """The loss at `case` with the ratios of `point`; a mean over tokens, or over rows of their means."""
    rows: list[list[float]] = []
    for g in case.groups():
        for b, a in zip(g, centred([case.rewards[b] for b in g]), strict=True):
            moved = [x - y for x, y in zip(point.logprobs[b], point.old[b], strict=True)]
            of_row = math.exp(mean(moved)) if moved else 1.0
            row: list[float] = []
            for t, d in enumerate(moved):
                ratio = math.exp(d)
                judged = of_row if range_ == "sequence" else ratio
                two = 1 - low <= judged <= 1 + high
                one = (a >= 0 and judged <= 1 + high) or (a <= 0 and judged >= 1 - low)
                far = (a >= 0 and judged <= 1 - far_low) or (a <= 0 and judged >= 1 + far_high)
                inside = {
                    "none": True,
                    "two_side": two,
                    "one_side": one,
                    "sequence": one,
                    "ring": two or far,
                }[range_]
                w = {
                    "one": 1.0,
                    "ratio": ratio,
                    "truncated": min(max(ratio, 1 - far_low), 1 + far_high),
                    "sequence": of_row,
                    "advantage": math.exp(a),
                }[weight]
                lp = case.logprobs[b][t]
                term = -w * a * lp if inside else 0.0
                if regularizer == "k2":
                    term += tau * (lp - case.old[b][t]) ** 2
                elif regularizer == "forward_kl":
                    term -= tau * lp
                row.append(term)
            rows.append(row)
    if by_row:
        return mean(mean(row) if row else 0.0 for row in rows)
    tokens = sum(map(len, rows))
    return sum(map(sum, rows)) / tokens if tokens else 0.0


REFERENCES = {"simple_po": simple_po, "dcpo_clip": dcpo_clip, "dcpo": dcpo, "rec": rec}
FROZEN = {"rec": rec_at}
