"""Baselines of off-policy REINFORCE: below the group's mean (AsymRE), and its log-mean-exp (OPMD)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import group_differs, min_group_of_key
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import FiniteFloat, PositiveFloat


@strict
class Shift:
    """v_i ← v_i − δ. After `centre`: A_i = r_i − (μ_g + δ), AsymRE's baseline; released code, agentscope-ai/Trinity-RFT,
    advantage_fn/asymre_advantage.py, δ = −0.1.

    With δ < 0 answers of a group of equal rewards are learned, too: each has the advantage −δ.
    """

    by: FiniteFloat = -0.1
    """δ."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return replace(inputs, values=inputs.values - self.by)


@strict
class LogMeanExp:
    """v_i ← (v_i − τ log mean_g e^(v/τ)) / (1 + τ)

    The baseline `logavgexp` of OPMD; released code, agentscope-ai/Trinity-RFT, advantage_fn/opmd_advantage.py, whose loss is
    divided by 1 + τ. τ → ∞ is the mean, τ → 0 the maximum. Exactly 0 in a group of equal values.
    """

    temperature: PositiveFloat = 1.0
    """τ."""
    key: str = "sample"

    min_group = min_group_of_key

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        values, key, tau = inputs.values, inputs.key(self.key), self.temperature
        top = np.full(int(key.max(initial=-1)) + 1, -np.inf)
        np.maximum.at(top, key, values)
        below = np.expm1((values - top[key]) / tau)  # expm1 and log1p: exact for a large τ
        mean = np.bincount(key, weights=below) / np.bincount(key).clip(min=1)
        gap = values - top[key] - tau * np.log1p(mean)[key]
        gap = np.where(group_differs(values, key), gap, 0.0)
        return replace(inputs, values=gap / (1 + tau))


STEPS = {"shift": Shift, "log_mean_exp": LogMeanExp}

ESTIMATORS: tuple[Estimator, ...] = ()
