"""DCPO's smoothed advantage: this step's rewards of a prompt beside those of all its visits."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import (
    MIN_SPREAD,
    Floats,
    centre,
    group_mean,
    group_sizes,
    min_group_of_key,
)
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict


@strict
class Smoothed:
    """A_i is the smaller in size of z_i (1 − 1/n) + Z_i / n and z_i / n + Z_i (1 − 1/n), at the n-th visit of the prompt.

    z = (r − μ) / σ of this step's group, Z = (r − M) / S of all visits: M the mean of their μ, and n S² the sum of
    their σ² and of the squared distances of their μ from M; σ unbiased. 0 in the place of z or Z where its deviation is 0.
    DCPO, arXiv 2509.02333; released code, lime-RL/DCPO, verl/trainer/ppo/core_algos.py, `compute_dcpo_outcome_advantage`:
    S is not the deviation of all rewards, and no ε is added. The first visit is GRPO. Equal rewards now, but others before,
    teach: that is the point. What a prompt has seen is in its notes, and in the checkpoint.
    """

    key: str = "sample"

    min_group = min_group_of_key
    remembers: ClassVar[bool] = True

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        key, values = inputs.key(self.key), inputs.values
        mean = group_mean(values, key)
        variance = group_mean(centre(values, key) ** 2, key)
        size = group_sizes(key)
        variance = variance * size / np.maximum(size - 1, 1)
        visits = inputs.past("visits", 0.0) + 1
        step = mean - inputs.past("mean", 0.0)
        all_mean = inputs.past("mean", 0.0) + step / visits
        scatter = inputs.past("scatter", 0.0) + variance + (visits - 1) / visits * step**2
        now = _standardise(values - mean, variance)
        over_all = _standardise(values - all_mean, scatter / visits)
        share = 1 / visits
        mostly_now = share * over_all + (1 - share) * now
        mostly_all = share * now + (1 - share) * over_all
        smaller = np.where(np.abs(mostly_now) < np.abs(mostly_all), mostly_now, mostly_all)
        noted = inputs.note({"visits": visits, "mean": all_mean, "scatter": scatter})
        return replace(noted, values=smaller)


def _standardise(gaps: Floats, variance: Floats) -> Floats:
    """gaps / √variance, 0 where the variance is that of equal values."""
    deviation = np.sqrt(variance)
    out = np.zeros_like(gaps)
    np.divide(gaps, deviation, out=out, where=deviation > MIN_SPREAD)
    return out


STEPS = {"smoothed": Smoothed}

ESTIMATORS: tuple[Estimator, ...] = ()
