"""BNPO: the centred reward divided by a Beta density that is fitted to the step's mean rewards."""

from __future__ import annotations

from dataclasses import replace
from math import lgamma

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import MIN_SPREAD, Floats, centre, group_mean, min_group_of_key
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.errors import AdvantageError
from vlrft.schema.ranges import FiniteFloat

MAX_WEIGHT = 1e6  # of the released code


@strict
class BetaNormalise:
    """v_i ← (v_i − p_g) · min(1 / Beta(p_g; α, β), 1e6),   p_g the group's mean of values mapped to [0, 1]

    a = (m (1 − m) / s² − 1) m,  b = (m (1 − m) / s² − 1)(1 − m),  α = max(1, 1 + a/3),  β = max(1, 1 + b/3)

    m and the unbiased s² are those of the step's p_g. BNPO, Beta Normalization Policy Optimization; released code,
    changyi7231/BNPO, recipe/bnpo/src/bnpo_ray_trainer.py. With one group α = β = 1: the centred reward. α = β = 3/2 is
    proportional to GRPO with the population's standard deviation.

    Departures: of several rewards it takes the sum, the code the mean of each one's advantage. Equal p_g, s² = 0, have α = β
    = 1, where the code divides by zero; a group of one gets 0, where the code gives it its reward. Raises AdvantageError
    for rewards outside `low` … `high`.
    """

    low: FiniteFloat = 0.0
    """The least reward."""
    high: FiniteFloat = 1.0
    """The largest reward."""
    key: str = "sample"

    min_group = min_group_of_key

    def __post_init__(self) -> None:
        if self.high - self.low <= MIN_SPREAD:
            raise ValueError(f"high: {self.high} must be above low: {self.low}")

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        values = (inputs.values - self.low) / (self.high - self.low)
        if len(values) and (values.min() < -MIN_SPREAD or values.max() > 1 + MIN_SPREAD):
            raise AdvantageError(
                f"beta_normalise: rewards from {inputs.values.min():g} to {inputs.values.max():g}, but low and high are "
                f"{self.low:g} and {self.high:g}: set them to the least and the largest reward"
            )
        key = inputs.key(self.key)
        means = group_mean(values, key).clip(0.0, 1.0)
        labels = np.unique(key, return_index=True)[1]
        weights = np.minimum(1 / _density(means, *_fit(means[labels])), MAX_WEIGHT)
        return replace(inputs, values=centre(values, key) * weights)


def _fit(means: Floats) -> tuple[float, float]:
    """α, β from the groups' means [P]."""
    if len(means) < 2 or float(means.var(ddof=1)) <= MIN_SPREAD**2:
        return 1.0, 1.0
    m, spread = float(means.mean()), float(means.var(ddof=1))
    size = m * (1 - m) / spread - 1
    return max(1.0, 1 + size * m / 3), max(1.0, 1 + size * (1 - m) / 3)


def _density(p: Floats, alpha: float, beta: float) -> Floats:
    """Beta(p; α, β), at least 1e-300."""
    norm = lgamma(alpha + beta) - lgamma(alpha) - lgamma(beta)
    inner = p.clip(1e-300, 1.0)
    outer = (1 - p).clip(1e-300, 1.0)
    logs = norm + (alpha - 1) * np.log(inner) + (beta - 1) * np.log(outer)
    density: Floats = np.exp(logs.clip(-690.0, 690.0))
    return density


STEPS = {"beta_normalise": BetaNormalise}

ESTIMATORS: tuple[Estimator, ...] = ()
