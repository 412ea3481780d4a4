"""Reference estimators, written from the formulas: loops over Python floats that share no code with the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from statistics import fmean, pstdev, stdev

EPS = 1e-6
Numbers = list[float]


@dataclass(frozen=True)
class Toy:
    """Rollouts [R] with their group's label, tokens, greedy reward and components."""

    rewards: Numbers
    group: list[int]
    tokens: list[int]
    greedy: Numbers  # equal within a group
    scores: Mapping[str, Numbers]
    max_tokens: int
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    truncated: list[bool] = field(default_factory=list[bool])  # empty: none is
    past: list[list[Numbers]] = field(default_factory=list[list[Numbers]])
    """[P][visits][rewards] of each group's prompt before this step."""
    progress: float = 0.0
    signals: Mapping[str, list[Numbers]] = field(default_factory=dict[str, list[Numbers]])  # [R][T]

    def groups(self) -> list[list[int]]:
        return [[i for i, g in enumerate(self.group) if g == k] for k in sorted(set(self.group))]


def differ(values: Sequence[float]) -> bool:
    return bool(values) and max(values) - min(values) > 1e-6


def by_group(toy: Toy, rule: Callable[[Numbers], Numbers], values: Numbers) -> Numbers:
    """The rule for each group whose values differ, 0 for the others."""
    out = [0.0] * len(values)
    for members in toy.groups():
        group_values = [values[i] for i in members]
        if differ(group_values):
            for i, a in zip(members, rule(group_values), strict=True):
                out[i] = a
    return out


def centre(values: Numbers) -> Numbers:
    return [v - fmean(values) for v in values]


def standardise(values: Numbers) -> Numbers:
    return [(v - fmean(values)) / (stdev(values) + EPS) for v in values]


def whiten(toy: Toy, values: Numbers) -> Numbers:
    out = [0.0] * len(values)
    if not differ(values):
        return out
    for members in toy.groups():
        if differ([values[i] for i in members]):
            for i in members:
                out[i] = (values[i] - fmean(values)) / (stdev(values) + EPS)
    return out


def centred(toy: Toy) -> Numbers:
    return by_group(toy, centre, toy.rewards)


def standardised(toy: Toy) -> Numbers:
    return by_group(toy, standardise, toy.rewards)


def batch_standardised(toy: Toy) -> Numbers:
    values = centred(toy)
    spread = stdev(values) if len(values) > 1 else 0.0
    return [v / (spread + EPS) for v in values]


def rloo(toy: Toy) -> Numbers:
    def rule(values: Numbers) -> Numbers:
        return [v - (sum(values) - v) / (len(values) - 1) for v in values]

    return by_group(toy, rule, toy.rewards)


def remax(toy: Toy) -> Numbers:
    gaps = [r - g for r, g in zip(toy.rewards, toy.greedy, strict=True)]
    return [gap if abs(gap) > 1e-6 else 0.0 for gap in gaps]


def reinforce_pp(toy: Toy) -> Numbers:
    """Every token is one value; all groups."""
    values = centred(toy)
    by_token = [v for v, n in zip(values, toy.tokens, strict=True) for _ in range(n)]
    if differ(by_token):
        return [(v - fmean(by_token)) / (pstdev(by_token) + EPS) for v in values]
    return [0.0] * len(values)


def gdpo(toy: Toy) -> Numbers:
    total = [0.0] * len(toy.rewards)
    for name, weight in toy.weights.items():
        for members in toy.groups():
            apply = [i for i in members if not isnan(toy.scores[name][i])]
            scores = [toy.scores[name][i] for i in apply]
            if differ(scores):
                for i, a in zip(apply, standardise(scores), strict=True):
                    total[i] += weight * a
    return whiten(toy, total)


def dapo(toy: Toy) -> Numbers:
    penalised: Numbers = []
    for reward, n in zip(toy.rewards, toy.tokens, strict=True):
        free = 0.8 * toy.max_tokens
        if n <= free:
            penalty = 0.0
        elif n <= toy.max_tokens:
            penalty = (free - n) / (toy.max_tokens - free)
        else:
            penalty = -1.0
        penalised.append(reward + penalty)
    return by_group(toy, standardise, penalised)


def best_against_worst(toy: Toy) -> Numbers:
    def rule(values: Numbers) -> Numbers:
        out = [0.0] * len(values)
        out[values.index(max(values))] = 1.0
        out[values.index(min(values))] = -1.0
        return out

    return by_group(toy, rule, toy.rewards)


REFERENCES: Mapping[str, Callable[[Toy], Numbers]] = {
    "centred": centred,
    "standardised": standardised,
    "batch_standardised": batch_standardised,
    "rloo": rloo,
    "remax": remax,
    "reinforce_pp": reinforce_pp,
    "gdpo": gdpo,
    "dapo": dapo,
    "best_against_worst": best_against_worst,
    "gigpo": standardised,  # for rollouts of one turn; see test_turns.py
    "gigpo_turns": standardised,
    "standardised_turns": standardised,
    "one": lambda toy: [1.0] * len(toy.rewards),
    "reward": lambda toy: list(toy.rewards),
}
