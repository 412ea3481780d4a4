"""Unlikeliness: right answers that the policy thought unlikely count more."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import min_group_of_key
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import UnitInterval


@strict
class Unlikely:
    """v_i ← v_i (1 − β · rank_i / n_g)

    rank_i: how many rollouts of the group have a smaller mean log-prob of their tokens, as sampled: 0 for the least likely.
    "Rewarding the Unlikely", arXiv 2506.02355; released code, AndreHe02/rewarding-unlikely-release, ray_lean_trainer.py,
    `_compute_advantages`; β = 0.25 in its examples/lean/grpo.sh. Put it before `centre`. Departure: rollouts with equal means,
    such as equal answers, have one rank here, and an arbitrary order there. A group that is all right teaches: its ranks
    differ. β = 0 is the rest of the pipeline; a wrong answer, of reward 0, keeps it.
    """

    needs_signals: ClassVar[frozenset[str]] = frozenset({"logprob"})

    beta: UnitInterval = 0.25
    key: str = "sample"

    min_group = min_group_of_key

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        key, means = inputs.key(self.key), inputs.mean_signal("logprob")
        factor = np.ones_like(inputs.values)
        for g in np.unique(key):
            rows = key == g
            rank = np.searchsorted(np.sort(means[rows]), means[rows])
            factor[rows] -= self.beta * rank / rows.sum()
        return replace(inputs, values=inputs.values * factor)


STEPS = {"unlikely": Unlikely}

ESTIMATORS: tuple[Estimator, ...] = ()
