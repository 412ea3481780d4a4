"""A factor from a score: SEED-GRPO's uncertainty-aware advantage."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.estimators.components import scores_of
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import NonNegativeFloat


@strict
class Times:
    """v_i ← v_i · f(α s_i);   f(x) = max(1 − x, 0) (linear), e^(−x) (exponential), max(1 − x, 0)² (focal)

    s: a component's score, whose weight may be 0; a rollout to which it does not apply keeps its value. SEED-GRPO lowers an
    advantage by the semantic entropy of its group's answers, α then is its own α over the largest entropy, ln G. Put it
    after `scale`: before it, a factor that is equal in a group cancels. The shapes are from reviews of the paper, not from
    its code.
    """

    score: str
    alpha: NonNegativeFloat = 1.0
    shape: Literal["linear", "exponential", "focal"] = "linear"

    @property
    def components(self) -> frozenset[str]:
        """Those of the reward that it reads."""
        return frozenset({self.score})

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        x = self.alpha * np.nan_to_num(scores_of(inputs, self.score))
        if self.shape == "exponential":
            factor = np.exp(-x)
        else:
            factor = (1 - x).clip(min=0) ** (2 if self.shape == "focal" else 1)
        return replace(inputs, values=inputs.values * factor)


STEPS = {"times": Times}

ESTIMATORS: tuple[Estimator, ...] = ()
