"""Advantages of a step's groups, laid out by the training rows of their rollouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vlrft.advantages.estimator import Estimator, spread_over_tokens
from vlrft.advantages.grouped import Floats
from vlrft.advantages.inputs import estimator_input
from vlrft.schema import Group, Piece, TrainingRow

RowAdvantages = list[list[Floats]]
"""Advantages of one group: [G rollouts][rows][action tokens]."""


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """The advantages of a step, and what its estimator notes for the next visit of each prompt."""

    rows: list[RowAdvantages]  # [P groups]
    notes: list[dict[str, float]]  # [P groups]


def estimate_rows(
    groups: Sequence[Group],
    estimator: Estimator,
    *,
    weights: Mapping[str, float] | None = None,
    max_tokens: int = 0,
    greedy: Sequence[float] | None = None,
) -> list[RowAdvantages]:
    """The advantages of a step [P groups], by themselves: nothing is known of steps before it. See `estimate_step`."""
    return estimate_step(
        groups, estimator, weights=weights, max_tokens=max_tokens, greedy=greedy
    ).rows


def estimate_step(
    groups: Sequence[Group],
    estimator: Estimator,
    *,
    weights: Mapping[str, float] | None = None,
    max_tokens: int = 0,
    greedy: Sequence[float] | None = None,
    progress: float = 0.0,
    history: Sequence[Mapping[str, float]] = (),
) -> Estimated:
    """The advantages of a step within its stage. `weights`: of the rewards, by name; `max_tokens`: the configured longest
    completion; `greedy`: the reward of each sample's greedy answer [P], which some estimators need; `progress`: the share
    of the stage's steps that are done; `history` [P]: what was noted at the last visit of each prompt.

    Raises RewardError for a reward that is not a finite number, AdvantageError for groups that the estimator does not
    fit.
    """
    if not groups:  # which have no components or tags that a step could read
        return Estimated(rows=[], notes=[])
    inputs = estimator_input(
        groups,
        weights or {},
        max_tokens,
        greedy,
        estimator.signals,
        progress=progress,
        history=history,
    )
    result = estimator(inputs)
    turns = iter(spread_over_tokens(result, estimator))
    rows = [[[_join_turns(row, turns) for row in r.rows] for r in g.rollouts] for g in groups]
    key = result.keys["sample"]
    notes = [
        {name: _mean(values[key == k]) for name, values in result.notes.items()}
        for k in range(len(groups))
    ]
    return Estimated(rows=rows, notes=notes)


def _join_turns(row: TrainingRow, turns: Iterator[Floats]) -> Floats:
    """The advantages of a row's action tokens: of each of its turns, concatenated."""
    parts = [next(turns) for piece in row.pieces if piece.sampled]
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros(0)])


def rollout_means(groups: Sequence[RowAdvantages]) -> list[list[float]]:
    """The advantage of each rollout [P][G]: the mean over its action tokens, 0 where it has none."""
    return [[_mean(np.concatenate([*rows, np.zeros(0)])) for rows in group] for group in groups]


def turn_means(
    groups: Sequence[Group], advantages: Sequence[RowAdvantages]
) -> list[list[list[float]]]:
    """The advantage of each turn [P][G][K]: the mean over its tokens. A rollout without an environment has no turns."""
    return [
        [
            [
                _mean(part)
                for row, tokens in zip(rollout.rows, rows, strict=True)
                for piece, part in _split_pieces(row, tokens)
                if piece.turn is not None
            ]
            for rollout, rows in zip(group.rollouts, group_advantages, strict=True)
        ]
        for group, group_advantages in zip(groups, advantages, strict=True)
    ]


def _split_pieces(row: TrainingRow, tokens: Floats) -> list[tuple[Piece, Floats]]:
    """The sampled pieces of a row, each with the values of its tokens."""
    sampled = [piece for piece in row.pieces if piece.sampled]
    ends = np.cumsum([len(piece.ids) for piece in sampled])
    return list(zip(sampled, np.split(tokens, ends[:-1]), strict=True))


def _mean(values: Floats) -> float:
    """Exact for equal values, which a plain mean rounds."""
    return float(values[0] + (values - values[0]).mean()) if len(values) else 0.0
