"""Estimators that compare the rollouts of a group: centre, scale, leave one out."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import (
    centre,
    divide_by_group_std,
    divide_by_step_std,
    group_sizes,
    least_group,
    min_group_of_key,
)
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.config.idle import refuse_idle
from vlrft.schema.errors import AdvantageError
from vlrft.schema.ranges import NonNegativeFloat


@strict
class Centre:
    """v_i ← v_i − μ_g over the groups of `key`; exactly 0 in a group of equal values."""

    key: str = "sample"

    min_group = min_group_of_key

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return replace(inputs, values=centre(inputs.values, inputs.key(self.key)))


@strict
class Scale:
    """v_i ← v_i / (σ + 1e-6), σ the unbiased standard deviation.

    group: σ_g = √(Σ_g v² / (n_g − 1)) over the groups of `key`, for values that are centred by it; a group of one stays
    0. step: σ of all values of the step.
    """

    by: Literal["group", "step"] = "group"
    key: str = "sample"
    least: NonNegativeFloat = 0.0
    """σ_g counts as at least so much, so that values that differ by little, such as by penalties alone, stay small."""

    def __post_init__(self) -> None:
        if self.by == "step":
            refuse_idle(self, "key", "least", beside="by: step", unless="by: group")

    @property
    def min_group(self) -> int:
        return least_group(self.key) if self.by == "group" else 1

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        if self.by == "step":
            return replace(inputs, values=divide_by_step_std(inputs.values))
        return replace(
            inputs, values=divide_by_group_std(inputs.values, inputs.key(self.key), self.least)
        )


@strict
class LeaveOneOut:
    """v_i ← v_i − (mean of the other values of its group) = n/(n−1) · (v_i − μ_g)

    Exactly 0 in a group of equal values. Raises AdvantageError for a group of one, which has no other values.
    """

    key: str = "sample"
    min_group = 2

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        key = inputs.key(self.key)
        sizes = group_sizes(key)
        if (sizes == 1).any():
            number = int(key[int(np.argmax(sizes == 1))])
            raise AdvantageError(
                f"group {number} of the step's {self.key!r} groups has one rollout, and none to compare it with"
            )
        return replace(inputs, values=sizes / np.maximum(sizes - 1, 1) * centre(inputs.values, key))


STEPS = {"centre": Centre, "scale": Scale, "leave_one_out": LeaveOneOut}

ESTIMATORS = (
    Estimator(
        name="centred",
        doc="The reward above its group's mean.",
        equation="A_i = r_i − μ_g",
        steps=(Centre(),),
    ),
    Estimator(
        name="standardised",
        doc="The reward above its group's mean, in standard deviations of the group.",
        equation="A_i = (r_i − μ_g) / (σ_g + 1e-6)",
        steps=(Centre(), Scale()),
    ),
    Estimator(
        name="batch_standardised",
        doc="The reward above its group's mean, in standard deviations over the step.",
        equation="A_i = (r_i − μ_g) / (σ + 1e-6), σ of the step's centred rewards",
        steps=(Centre(), Scale(by="step")),
    ),
    Estimator(
        name="rloo",
        doc="The reward above the mean of the group's other rollouts (RLOO, arXiv 2402.14740).",
        equation="A_i = G/(G−1) · (r_i − μ_g)",
        steps=(LeaveOneOut(),),
    ),
)
