"""GTPO (trajectory): tokens that right and wrong answers have in common are not pushed down, uncertain answers are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import Bools, Floats
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import NonNegativeFloat


@strict
class Conflict:
    """Multiplies tokens by λ: 0 in rollouts with v < 0 and `weight` in those with v > 0, where a token is in conflict; 1 elsewhere.

    Token t is in conflict while every token of its rollout so far is, at its place, also in a rollout of the group with v > 0
    and in one with v < 0. The same from the end backwards; both factors multiply. Rollouts with v = 0 take no part; the
    turns of an episode are one sequence. GTPO, arXiv 2508.03772; released code, winstonsmith1897/GTPO, gtpo_training.py,
    `build_conflict_mask`. Without answers of both signs nothing changes. Departure: the code also divides a row's loss by
    its number of conflicting tokens, of which the paper says nothing.
    """

    needs_signals: ClassVar[frozenset[str]] = frozenset({"id"})

    weight: NonNegativeFloat = 2.0
    key: str = "sample"

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        ids, values, key = inputs.signal("id"), inputs.values, inputs.key(self.key)
        turns = [np.flatnonzero(inputs.rollouts == i) for i in range(len(values))]
        whole = [np.concatenate([*(ids[b] for b in own), np.zeros(0)]) for own in turns]
        factors = [np.ones(len(row)) for row in ids]
        for g in np.unique(key):
            rows = [int(i) for i in np.flatnonzero((key == g) & (values != 0))]
            forward = _runs([whole[i] for i in rows], values[rows])
            backward = _runs([whole[i][::-1] for i in rows], values[rows])
            for i, start, end in zip(rows, forward, backward, strict=True):
                weight = self.weight if values[i] > 0 else 0.0
                row = np.where(start, weight, 1.0) * np.where(end[::-1], weight, 1.0)
                ends = np.cumsum([len(ids[b]) for b in turns[i]])[:-1]
                for b, part in zip(turns[i], np.split(row, ends), strict=True):
                    factors[b] = part
        return inputs.scale_tokens(factors)


def _runs(rows: list[Floats], values: Floats) -> list[Bools]:
    """For each row, which tokens are in conflict: from its start, without a gap."""
    seen: list[set[tuple[int, float]]] = [
        {
            (t, float(token))
            for row, value in zip(rows, values, strict=True)
            if value * sign > 0
            for t, token in enumerate(row)
        }
        for sign in (1, -1)
    ]
    both = seen[0] & seen[1]
    hits = [
        np.array([(t, float(token)) in both for t, token in enumerate(row)], bool) for row in rows
    ]
    return [np.logical_and.accumulate(row) for row in hits]


@strict
class MinusEntropy:
    """v_i ← v_i − γ H̄_i, H̄ the mean entropy over the rollout's tokens, as sampled.

    GTPO's entropy regulariser; γ = 0.1 in its code, `ENT_SCALE`. Flat groups teach: it is not compared within a group.
    """

    needs_signals: ClassVar[frozenset[str]] = frozenset({"entropy"})

    scale: NonNegativeFloat = 0.1
    """γ."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return replace(inputs, values=inputs.values - self.scale * inputs.mean_signal("entropy"))


@strict
class DropUncertain:
    """v_i ← 0 where H̄_i, the mean entropy over the rollout's tokens as sampled, is above `above` nats.

    GTPO's filter; 0.7 is the code's `ENT_THRESHOLD`, ln 2 rounded. Put it last. Departure from its README: there it acts only
    where the initial policy's mean entropy is below ln 2, in its code always, as here. The code takes the entropy of the
    policy that is trained, which is the one that sampled with one update per batch.
    """

    needs_signals: ClassVar[frozenset[str]] = frozenset({"entropy"})

    above: NonNegativeFloat = 0.7

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        uncertain = inputs.mean_signal("entropy") > self.above
        return replace(inputs, values=np.where(uncertain, 0.0, inputs.values))


STEPS = {"conflict": Conflict, "minus_entropy": MinusEntropy, "drop_uncertain": DropUncertain}

ESTIMATORS: tuple[Estimator, ...] = ()
