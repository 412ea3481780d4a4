"""References of steps on numbers of tokens: loops over Python floats that share no code with the library."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from tests.advantages import reference
from tests.advantages.reference import EPS, Numbers, Toy, by_group, centre, standardise


def of_group(toy: Toy, i: int) -> list[int]:
    return [j for j, k in enumerate(toy.group) if k == toy.group[i]]


def mean_of(toy: Toy, name: str, i: int) -> float:
    return fmean(toy.signals[name][i]) if toy.signals[name][i] else 0.0


def unlikely(toy: Toy) -> Numbers:
    changed: Numbers = []
    for i, reward in enumerate(toy.rewards):
        group = of_group(toy, i)
        rank = sum(mean_of(toy, "logprob", j) < mean_of(toy, "logprob", i) for j in group)
        changed.append(reward * (1 - 0.5 * rank / len(group)))
    return by_group(toy, standardise, changed)


def sharing(toy: Toy, i: int, t: int) -> list[int]:
    """The rollouts of i's group whose first t tokens are i's."""
    ids = toy.signals["id"]
    return [j for j in of_group(toy, i) if ids[j][:t] == ids[i][:t] and len(ids[j]) >= t]


def prefix_share(toy: Toy) -> list[Numbers]:
    values = reference.standardised(toy)
    return [
        [a / len(sharing(toy, i, t + 1)) for t in range(toy.tokens[i])]
        for i, a in enumerate(values)
    ]


def prefix_value(toy: Toy) -> list[Numbers]:
    centred = by_group(toy, centre, toy.rewards)

    def value(i: int, t: int) -> float:
        return fmean(centred[j] for j in sharing(toy, i, t))

    return [
        [a + 0.5 * (value(i, t + 1) - value(i, t)) for t in range(toy.tokens[i])]
        for i, a in enumerate(reference.standardised(toy))
    ]


def in_conflict(toy: Toy, values: Numbers, i: int, t: int, *, backwards: bool) -> bool:
    """Whether token t of rollout i, counted from the end if backwards, and all before it are in rollouts of both signs."""
    rows = [row[::-1] if backwards else row for row in toy.signals["id"]]
    return all(
        any(values[j] * sign > 0 and rows[j][s : s + 1] == [rows[i][s]] for j in of_group(toy, i))
        for s in range(t + 1)
        for sign in (1, -1)
    )


def conflict(toy: Toy) -> list[Numbers]:
    values = reference.centred(toy)
    rows: list[Numbers] = []
    for i, a in enumerate(values):
        row: Numbers = []
        for t in range(toy.tokens[i]):
            places = ((t, False), (toy.tokens[i] - 1 - t, True))
            hits = sum(in_conflict(toy, values, i, s, backwards=b) for s, b in places) if a else 0
            row.append(a * (3.0 if a > 0 else 0.0) ** hits)
        rows.append(row)
    return rows


def minus_entropy(toy: Toy) -> Numbers:
    return [a - 0.2 * mean_of(toy, "entropy", i) for i, a in enumerate(reference.centred(toy))]


def drop_uncertain(toy: Toy) -> Numbers:
    centred = reference.centred(toy)
    return [0.0 if mean_of(toy, "entropy", i) > 0.6 else a for i, a in enumerate(centred)]


def intuitor(toy: Toy) -> Numbers:
    certainty = [mean_of(toy, "certainty", i) for i in range(len(toy.rewards))]
    return by_group(toy, standardise, certainty)


def over_entropy(toy: Toy) -> Numbers:
    def factor(i: int) -> float:
        mean = fmean(mean_of(toy, "entropy", j) for j in of_group(toy, i))
        return mean / (mean_of(toy, "entropy", i) + EPS)

    return [a * factor(i) for i, a in enumerate(reference.standardised(toy))]


def entropy_weight(toy: Toy) -> Numbers:
    values = reference.standardised(toy)

    def raised(i: int) -> float:
        return math.exp((values[i] + 0.3 * mean_of(toy, "entropy", i)) / 2)

    return [a * raised(i) / sum(raised(j) for j in of_group(toy, i)) for i, a in enumerate(values)]


TOKEN_REFERENCES: Mapping[str, tuple[list[Any], Callable[[Toy], Numbers | list[Numbers]]]] = {
    "unlikely": ([{"step": "unlikely", "beta": 0.5}, "centre", "scale"], unlikely),
    "prefix_share": (["centre", "scale", "prefix_share"], prefix_share),
    "prefix_value": ([{"step": "prefix_value", "coef": 0.5}, "centre", "scale"], prefix_value),
    "conflict": (["centre", {"step": "conflict", "weight": 3.0}], conflict),
    "minus_entropy": (["centre", {"step": "minus_entropy", "scale": 0.2}], minus_entropy),
    "drop_uncertain": (["centre", {"step": "drop_uncertain", "above": 0.6}], drop_uncertain),
    "self_certainty": (["self_certainty", "centre", "scale"], intuitor),
    "over_entropy": (["centre", "scale", "over_entropy"], over_entropy),
    "entropy_weight": (
        ["centre", "scale", {"step": "entropy_weight", "alpha": 0.3, "temperature": 2.0}],
        entropy_weight,
    ),
}
"""Step -> a pipeline with it, and its values [R], or its advantages [R][T] where it gives credit by token."""
