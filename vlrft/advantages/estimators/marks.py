"""Steps that mark rollouts for objectives over pairs and sets: right against wrong, and rewards of mixed groups alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import MIN_SPREAD, group_differs, min_group_of_key
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import FiniteFloat


@strict
class RightOrWrong:
    """v_i ← +1 where v_i ≥ right, −1 where v_i ≤ wrong, 0 between them; all 0 in a group that lacks one of the two."""

    right: FiniteFloat = 1.0
    wrong: FiniteFloat = 0.0
    key: str = "sample"

    min_group = min_group_of_key

    def __post_init__(self) -> None:
        if self.right - self.wrong <= 2 * MIN_SPREAD:
            raise ValueError(
                f"right: {self.right} must be above wrong: {self.wrong}, as they are rewards"
            )

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        right = inputs.values >= self.right - MIN_SPREAD
        wrong = inputs.values <= self.wrong + MIN_SPREAD
        key = inputs.key(self.key)
        has_right = np.bincount(key, weights=right)[key] > 0
        has_wrong = np.bincount(key, weights=wrong)[key] > 0
        sign = right.astype(np.float64) - wrong
        return replace(inputs, values=np.where(has_right & has_wrong, sign, 0.0))


@strict
class MuteFlat:
    """v_i ← 0 in a group of equal values, where nothing can be compared; other values stay as they are."""

    key: str = "sample"

    min_group = min_group_of_key

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        differs = group_differs(inputs.values, inputs.key(self.key))
        return replace(inputs, values=np.where(differs, inputs.values, 0.0))


STEPS = {"right_or_wrong": RightOrWrong, "mute_flat": MuteFlat}

ESTIMATORS: tuple[Estimator, ...] = ()
