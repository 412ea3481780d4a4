"""ReMax: the policy's own greedy answer is the baseline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import MIN_SPREAD
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.errors import AdvantageError


@strict
class MinusGreedy:
    """v_i ← v_i − (reward of the greedy rollout of the same sample); exactly 0 where they are equal."""

    needs_greedy = True

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        if inputs.greedy is None:
            raise AdvantageError("needs the reward of a greedy rollout of each sample")
        gap = inputs.values - inputs.greedy
        return replace(inputs, values=np.where(np.abs(gap) > MIN_SPREAD, gap, 0.0))


STEPS = {"minus_greedy": MinusGreedy}

ESTIMATORS = (
    Estimator(
        name="remax",
        doc="The reward above that of the greedy answer to the same sample (ReMax, arXiv 2310.10505, Eq. 6).",
        equation="A_i = r_i − r(greedy)",
        steps=(MinusGreedy(),),
    ),
)
