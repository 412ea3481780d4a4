"""Estimators that normalise over the whole optimiser step."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.estimators.components import PerComponent
from vlrft.advantages.estimators.group import Centre
from vlrft.advantages.grouped import EPSILON, MIN_SPREAD, group_differs
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict


@strict
class Whiten:
    """v_i ← (v_i − μ) / (σ + 1e-6), μ and σ over the whole step.

    rollouts: every rollout counts once, σ is unbiased. tokens: rollout i counts n_i times, its number of action tokens,
    σ is that of the population, as in OpenRLHF's REINFORCE++ (verl's is unbiased).

    Groups of `key` with equal values get exactly 0: centring has made these values 0, and subtracting μ would leave a
    rounding residue. `key: null`: no groups, for rewards that are not centred, or where groups of equal values are to get
    −μ / σ as well.
    """

    over: Literal["rollouts", "tokens"] = "rollouts"
    key: str | None = "sample"

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        values = inputs.values
        by_token = self.over == "tokens"
        counts = inputs.tokens if by_token else np.ones(len(values), dtype=np.int64)
        counted = values[counts > 0]
        if len(counted) < 2 or float(np.ptp(counted)) <= MIN_SPREAD:
            return replace(inputs, values=np.zeros_like(values))
        if by_token:
            mean = float(np.average(values, weights=counts))
            std = float(np.sqrt(np.average((values - mean) ** 2, weights=counts)))
        else:
            mean, std = float(values.mean()), float(values.std(ddof=1))
        white = (values - mean) / (std + EPSILON)
        if self.key is not None:
            white = np.where(group_differs(values, inputs.key(self.key)), white, 0.0)
        return replace(inputs, values=white)


STEPS = {"whiten": Whiten}

ESTIMATORS = (
    Estimator(
        name="reinforce_pp",
        doc="The reward above its group's mean, whitened over the tokens of the step (REINFORCE++ baseline, arXiv 2501.03262).",
        equation="c_i = r_i − μ_g;  A_i = (c_i − μ) / (σ + 1e-6), μ and σ of the step's c, each counted |o_i| times",
        steps=(Centre(), Whiten(over="tokens", key=None)),
    ),
    Estimator(
        name="gdpo",
        doc="Each reward component standardised in its group, weighted, summed, whitened over the step's rollouts "
        "(arXiv 2601.05242).",
        equation="c_i = Σ_k w_k (r_ik − μ_gk) / (σ_gk + 1e-6);  A_i = (c_i − μ) / (σ + 1e-6)",
        steps=(PerComponent(), Whiten()),
    ),
)
