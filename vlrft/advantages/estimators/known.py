"""Baselines that are known before the step: a number of the sample, and a value that is tracked over a prompt's visits."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import MIN_SPREAD
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.errors import AdvantageError
from vlrft.schema.ranges import FiniteFloat, UnitInterval


@strict
class MinusKnown:
    """v_i ← v_i − b, b the number `info` of the sample's info, such as the mean reward of rollouts made before training.

    PVPO's static value: V is the mean reward of rollouts of the reference policy; as the paper's reviews and a third party's
    port (Wodlfvllf/grpo-composer, static_value.py) have it, without a deviation. The mean of the group in its place is
    `centre`. Groups of equal rewards teach unless they earn b.
    """

    info: str = "baseline"
    otherwise: FiniteFloat | None = None
    """b of a sample without the number; null: it is refused."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return replace(inputs, values=inputs.values - inputs.known_of(self.info, self.otherwise))


@strict
class MinusTracked:
    """v_i ← r_i − α / (α + β), and then α ← ρ α + r, β ← ρ β + 1 − r for the prompt's next visit.

    SPO, single-stream policy optimisation, arXiv 2509.13232; released code, verl-project/verl-recipe, spo_ray_trainer.py,
    with `rho.type: constant` and `offline_N: 0`, where α = β = ½ at first. Its other ρ, 2^(−D / 0.06) by how far the policy
    has moved on the prompt's last answer, is not here. Put `{step: whiten, key: null}` after it, as the code does over the
    step; a prompt's own rewards never change its value before they are compared. Rewards must be from 0 to 1; of a group the
    mean counts. Works with groups of one.
    """

    keep: UnitInterval = 0.875
    """ρ; `rho.value` of the code's configuration."""

    remembers: ClassVar[bool] = True

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        alpha, beta = inputs.past("alpha", 0.5), inputs.past("beta", 0.5)
        reward = inputs.values
        if (np.abs(reward - 0.5) > 0.5 + MIN_SPREAD).any():
            raise AdvantageError(
                f"minus_tracked: needs rewards from 0 to 1, and one is {reward[np.abs(reward - 0.5).argmax()]:g}"
            )
        noted = inputs.note(
            {"alpha": self.keep * alpha + reward, "beta": self.keep * beta + 1 - reward}
        )
        return replace(noted, values=reward - alpha / (alpha + beta))


STEPS = {"minus_known": MinusKnown, "minus_tracked": MinusTracked}

ESTIMATORS: tuple[Estimator, ...] = ()
