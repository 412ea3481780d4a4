"""References of steps that read what was before the step: loops over Python floats that share no code with the library."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import fmean, stdev, variance
from typing import Any

from tests.advantages.reference import Numbers, Toy, by_group, differ, standardise

RHO = 0.75


def spread(rewards: Numbers) -> float:
    """The unbiased variance, 0 of equal rewards."""
    return variance(rewards) if differ(rewards) else 0.0


def history_of(toy: Toy) -> dict[str, Numbers]:
    """The notes of steps at the last visit of each rollout's prompt, from the rewards of all visits; NaN before the first."""
    names = ("visits", "mean", "scatter", "alpha", "beta")
    return {name: [_noted(toy.past[k])[name] for k in toy.group] for name in names}


def _noted(visits: list[Numbers]) -> dict[str, float]:
    if not visits:
        return dict.fromkeys(("visits", "mean", "scatter", "alpha", "beta"), math.nan)
    means = [fmean(rewards) for rewards in visits]
    right = sum(m * RHO ** (len(means) - 1 - k) for k, m in enumerate(means))
    wrong = sum((1 - m) * RHO ** (len(means) - 1 - k) for k, m in enumerate(means))
    return {
        "visits": float(len(visits)),
        "mean": fmean(means),
        "scatter": sum(map(spread, visits)) + sum((m - fmean(means)) ** 2 for m in means),
        "alpha": 0.5 * RHO ** len(means) + right,
        "beta": 0.5 * RHO ** len(means) + wrong,
    }


def smoothed(toy: Toy) -> Numbers:
    """From the rewards of all visits themselves, this one included."""
    out: Numbers = []
    for i, reward in enumerate(toy.rewards):
        now = [r for r, k in zip(toy.rewards, toy.group, strict=True) if k == toy.group[i]]
        visits = [*toy.past[toy.group[i]], now]
        means = [fmean(rewards) for rewards in visits]
        total = sum(map(spread, visits)) + sum((m - fmean(means)) ** 2 for m in means)
        deviation, n = math.sqrt(total / len(visits)), len(visits)
        z = (reward - fmean(now)) / stdev(now) if differ(now) else 0.0
        over_all = (reward - fmean(means)) / deviation if deviation > 1e-6 else 0.0
        candidates = [over_all / n + (1 - 1 / n) * z, z / n + (1 - 1 / n) * over_all]
        out.append(min(reversed(candidates), key=abs))
    return out


def minus_known(toy: Toy) -> Numbers:
    return [r - g for r, g in zip(toy.rewards, toy.greedy, strict=True)]


def minus_tracked(toy: Toy) -> Numbers:
    def value(k: int) -> float:
        noted = _noted(toy.past[k])
        return noted["alpha"] / (noted["alpha"] + noted["beta"]) if toy.past[k] else 0.5

    return [r - value(k) for r, k in zip(toy.rewards, toy.group, strict=True)]


def rare_formats(toy: Toy) -> Numbers:
    changed: Numbers = []
    for i, reward in enumerate(toy.rewards):
        group = [j for j, k in enumerate(toy.group) if k == toy.group[i]]
        same = [j for j in group if toy.scores["calls"][j] == toy.scores["calls"][i]]
        a, b = len(group) / len(same), 1.0
        changed.append(reward * (b + 0.5 * (a - b) * (1 + math.cos(math.pi * toy.progress))))
    return by_group(toy, standardise, changed)


CONTEXT_REFERENCES: Mapping[str, tuple[list[Any], Callable[[Toy], Numbers | list[Numbers]]]] = {
    "smoothed": (["smoothed"], smoothed),
    "minus_known": ([{"step": "minus_known", "info": "value"}], minus_known),
    "minus_tracked": ([{"step": "minus_tracked", "keep": RHO}], minus_tracked),
    "rare_formats": ([{"step": "rare_formats", "score": "calls"}, "centre", "scale"], rare_formats),
}
"""Step -> a pipeline with it, and its values [R]."""
