"""NGRPO: a virtual rollout with the best reward joins the statistics of each group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import EPSILON, MIN_SPREAD
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import FiniteFloat, Positive


@strict
class VirtualBest:
    """v_i ← (v_i − μ) / (σ + 1e-6), μ and the unbiased σ over the group's rewards and `count` virtual ones of `value`.

    NGRPO, Negative-enhanced Group Relative Policy Optimization; released code, nangongrui-ngr/NGRPO,
    verl/trainer/ppo/core_algos.py. A group that is all wrong learns, too: each gets −1/√(G + 1); one that is all right gets
    exactly 0. Mixed groups have ΣA < 0, which the paper pairs with the clip 0.16 below and 0.24 above. Works for a group of
    one. A keep rule that drops groups of equal rewards takes the all-wrong ones away.
    """

    value: FiniteFloat = 1.0
    count: Positive = 1
    key: str = "sample"

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        values, key = inputs.values, inputs.key(self.key)
        sizes = np.bincount(key) + self.count
        mean = (np.bincount(key, weights=values) + self.count * self.value) / sizes
        gaps = values - mean[key]
        squares = np.bincount(key, weights=gaps**2) + self.count * (self.value - mean) ** 2
        std = np.sqrt(squares / np.maximum(sizes - 1, 1))
        farthest = np.zeros(len(mean))
        np.maximum.at(farthest, key, np.abs(values - self.value))
        differs = (farthest > MIN_SPREAD)[key]
        return replace(inputs, values=np.where(differs, gaps / (std[key] + EPSILON), 0.0))


STEPS = {"virtual_best": VirtualBest}

ESTIMATORS: tuple[Estimator, ...] = ()
