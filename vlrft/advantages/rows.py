"""What a step learns from: which rollouts of its groups, and with which advantages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from vlrft.advantages import Floats, advantages, estimator_input
from vlrft.algorithms import Algorithm
from vlrft.schema import Group, TrainingRow
from vlrft.selection.rollout_filters import chosen, only

RowAdvantages = list[list[Floats]]
"""Of one group: [G rollouts][rows][action tokens]."""


def advantages_of(
    groups: Sequence[Group],
    algorithm: Algorithm,
    *,
    weights: Mapping[str, float] | None = None,
    max_tokens: int = 0,
    greedy: Sequence[float] | None = None,
) -> list[RowAdvantages]:
    """The step's advantages, a group each. `weights`: of the named rewards; `max_tokens`: the configured longest
    completion; `greedy`: the reward of each sample's greedy answer, where the estimator wants it.

    Raises RewardError for a reward that is no finite number, AdvantageError for a step the estimator does not fit.
    """
    plays = estimator_input(groups, weights or {}, max_tokens, greedy)
    turns = iter(advantages(plays, algorithm.estimator))
    return [[[_joined(row, turns) for row in r.rows] for r in g.rollouts] for g in groups]


def _joined(row: TrainingRow, turns: Iterator[Floats]) -> Floats:
    """The row's action tokens: those of each of its turns."""
    own = [next(turns) for piece in row.pieces if piece.sampled]
    return own[0] if len(own) == 1 else np.concatenate([*own, np.zeros(0)])


def rollout_means(groups: Sequence[RowAdvantages]) -> list[list[float]]:
    """A rollout's advantage [P][G], the mean over its action tokens; 0 when it has none."""
    return [[_mean(np.concatenate([*rows, np.zeros(0)])) for rows in group] for group in groups]


def turn_means(
    groups: Sequence[Group], advantages: Sequence[RowAdvantages]
) -> list[list[list[float]]]:
    """The advantage of each turn [P][G][K], the mean over its tokens; none where no environment answered."""
    return [
        [
            [
                _mean(part)
                for row, tokens in zip(rollout.rows, rows, strict=True)
                if row.pieces[0].turn is not None
                for part in _turns_of(row, tokens)
            ]
            for rollout, rows in zip(group.rollouts, own, strict=True)
        ]
        for group, own in zip(groups, advantages, strict=True)
    ]


def _turns_of(row: TrainingRow, tokens: Floats) -> list[Floats]:
    ends = np.cumsum([len(piece.ids) for piece in row.pieces if piece.sampled])
    return np.split(tokens, ends[:-1])


def _mean(values: Floats) -> float:
    """Exact for equal values, which a plain mean rounds."""
    return float(values[0] + (values - values[0]).mean()) if len(values) else 0.0


def lesson(
    groups: Sequence[Group], algorithm: Algorithm, estimate: Callable[..., list[RowAdvantages]]
) -> tuple[list[Group], list[RowAdvantages]]:
    """The groups without the rollouts that are not selected, and their advantages; a group that loses all goes.

    `estimate(groups)`: the advantages, before or after the selection as the selector asks.
    """
    select, taught = algorithm.select, list(groups)
    if select is None:
        return taught, estimate(taught)
    if select.before_advantages:
        left = [only(g, i) for g, i in zip(taught, chosen(select, taught), strict=True) if i]
        return left, estimate(left)
    found = estimate(taught)
    picked = chosen(select, taught, rollout_means(found))
    kept = [(g, a, i) for g, a, i in zip(taught, found, picked, strict=True) if i]
    return [only(g, i) for g, _, i in kept], [[a[k] for k in i] for _, a, i in kept]
