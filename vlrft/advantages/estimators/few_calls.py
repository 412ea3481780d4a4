"""OTC: a right answer earns more the fewer tools it called."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.estimators.components import scores_of
from vlrft.advantages.grouped import MIN_SPREAD
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.errors import AdvantageError
from vlrft.schema.ranges import FiniteFloat, PositiveFloat


@strict
class FewCalls:
    """v_i ← α · r_tool · v_i;  r_tool = 1 if m = n = 0, cos(m π / (2m + c)) if n = 0, else sin(f π / (2n)), f = 2nm / (m + n)

    m: the rollout's tool calls, from the score `calls`; n: the fewest of a right answer (v ≥ right) of the group. OTC,
    Optimal Tool Calls via Reinforcement Learning, arXiv 2504.14870, GRPO form. r_tool is 1 at m = n and less on both sides. The three cases
    agree with a third party's transcription; c = 2 and the product with the reward are not verified, no authors' code was
    found. Put it before `centre`. A group without a right answer keeps its values.
    """

    calls: str = "calls"
    """The score with the number of calls; an environment's or a reward's, its weight may be 0."""
    c: PositiveFloat = 2.0
    scale: PositiveFloat = 1.0
    """α."""
    right: FiniteFloat = 1.0
    key: str = "sample"

    @property
    def components(self) -> frozenset[str]:
        """Those of the reward that it reads."""
        return frozenset({self.calls})

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        values, key, m = inputs.values, inputs.key(self.key), scores_of(inputs, self.calls)
        if not np.isfinite(m).all() or (len(m) and m.min() < 0):
            raise AdvantageError(
                f"few_calls: {self.calls} must be a number of calls for every rollout"
            )
        fewest = np.full(int(key.max(initial=-1)) + 1, np.inf)
        right = values >= self.right - MIN_SPREAD
        np.minimum.at(fewest, key[right], m[right])
        n = fewest[key]
        known = np.isfinite(n) & (n > 0)
        safe = np.where(known, n, 1.0)
        middle = np.sin(m / (m + safe) * np.pi)  # f π / (2n)
        none = np.cos(m * np.pi / (2 * m + self.c))
        factor = np.where(known, middle, none)
        return replace(
            inputs, values=np.where(np.isfinite(n), self.scale * factor * values, values)
        )


STEPS = {"few_calls": FewCalls}

ESTIMATORS: tuple[Estimator, ...] = ()
