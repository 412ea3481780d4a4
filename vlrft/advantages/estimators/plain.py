"""Estimators without a baseline: the reward itself, 1 for every answer, best against worst."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import group_differs, min_group_of_key
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict


@strict
class One:
    """v_i ← 1: every answer is a demonstration to be learned."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return replace(inputs, values=np.ones_like(inputs.values))


@strict
class BestAgainstWorst:
    """v ← +1 for the best of its group, −1 for the worst, 0 for the rest; among equal values the first counts. All 0 in a
    group of equal values."""

    key: str = "sample"

    min_group = min_group_of_key

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        key, values = inputs.key(self.key), inputs.values
        out = np.zeros_like(values)
        for sign in (1.0, -1.0):
            best_first = np.lexsort((-sign * values, key))  # stable: equal values keep their order
            _, first = np.unique(key[best_first], return_index=True)
            out[best_first[first]] = sign
        return replace(inputs, values=np.where(group_differs(values, key), out, 0.0))


STEPS = {"one": One, "best_against_worst": BestAgainstWorst}

ESTIMATORS = (
    Estimator(name="one", doc="1 for every answer.", equation="A_i = 1", steps=(One(),)),
    Estimator(name="reward", doc="The reward itself, without a baseline.", equation="A_i = r_i"),
    Estimator(
        name="best_against_worst",
        doc="The pair of a group's best and worst answer; a group of equal rewards has none.",
        equation="A = +1 for the best, −1 for the worst, 0 for the rest",
        steps=(BestAgainstWorst(),),
    ),
)
