"""MAPO: a group that is nearly all right or all wrong is compared by its mean, a mixed one by its standard deviation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import (
    EPSILON,
    MIN_SPREAD,
    centre,
    divide_by_group_std,
    group_mean,
    min_group_of_key,
)
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import FiniteFloat


@strict
class MixedDeviation:
    """v_i ← λ (v_i − μ_g) / (σ_g + 1e-6) + (1 − λ) (v_i − μ_g) / (μ_g + 1e-6),   λ = 4 p (1 − p)

    p: the group's share of rewards that are exactly `best`. MAPO, Mixed Advantage Policy Optimization; released code,
    WenkeHuang/MAPO, verl/trainer/core_algos.py. p = ½ is GRPO; with p → 1 an answer counts by its share of the mean. No other
    hyper-parameters.

    Departure: the second term is 0 where μ_g ≤ 1e-6, where the code's explodes or changes its sign.
    """

    best: FiniteFloat = 1.0
    key: str = "sample"

    min_group = min_group_of_key

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        values, key = inputs.values, inputs.key(self.key)
        right = (np.abs(values - self.best) <= MIN_SPREAD).astype(np.float64)
        share, mean = group_mean(right, key), group_mean(values, key)
        mixed = 4 * share * (1 - share)
        centred = centre(values, key)
        by_mean = centred / np.where(mean > MIN_SPREAD, mean + EPSILON, np.inf)
        by_std = divide_by_group_std(centred, key)
        return replace(inputs, values=mixed * by_std + (1 - mixed) * by_mean)


STEPS = {"mixed_deviation": MixedDeviation}

ESTIMATORS: tuple[Estimator, ...] = ()
