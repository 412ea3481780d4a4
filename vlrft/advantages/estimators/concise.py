"""ConciseR's second stage: among answers that are all right the shorter one is better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import MIN_SPREAD
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.errors import AdvantageError
from vlrft.schema.ranges import FiniteFloat


@strict
class ShorterWhenRight:
    """v_i ← v_i + (1 − |o_i| / L) in groups whose values are all ≥ right; other groups stay as they are.

    L: the configured longest completion. L-GRPO of ConciseR, arXiv 2505.21178, whose first stage is DAPO. The form of the
    length term is from memory, not checked against the paper; no code is published. Put it before `centre`; keep rules that
    drop groups of equal rewards drop those that it teaches.
    """

    right: FiniteFloat = 1.0
    key: str = "sample"

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        if inputs.max_tokens <= 0:
            raise AdvantageError("shorter_when_right: needs the configured longest completion")
        key = inputs.key(self.key)
        wrong = np.bincount(key, weights=inputs.values < self.right - MIN_SPREAD)[key] > 0
        bonus = 1 - inputs.tokens / inputs.max_tokens
        return replace(inputs, values=inputs.values + np.where(wrong, 0.0, bonus))


STEPS = {"shorter_when_right": ShorterWhenRight}

ESTIMATORS: tuple[Estimator, ...] = ()
