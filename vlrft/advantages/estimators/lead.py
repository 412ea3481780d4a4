"""GRPO-LEAD: short right answers earn more, and hard prompts weigh more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import (
    EPSILON,
    MIN_SPREAD,
    Bools,
    Floats,
    Ints,
    centre,
    divide_by_group_std,
    group_mean,
)
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import Natural, NonNegativeFloat

SHORTEST = 3  # rollouts whose mean length decides whether length counts


@strict
class Lead:
    """r'_i = e^(−α z_i) where v_i > 0, else −1;  A_i = (r'_i − μ_g) / (σ_g + 1e-6);  v_i ← A_i w(p) where A_i > 0, A_i w(1 − p) else

    z_i: the length's deviation among the group's right answers, in their unbiased σ + 1e-6 (one right answer: 0);
    p: share of right answers; w(x) = 0.4 + 1.1 / (1 + e^(10 (x − 0.75))). GRPO-LEAD, arXiv 2504.09696; released code, aeroplanepaper/GRPO-LEAD,
    main_ppo.py, core_algos.py; α = 0.05. As there, length counts only where the three shortest of the whole group, right or
    wrong, have more than `from_tokens` tokens on average (fewer than three rollouts: always); elsewhere r' = 1.

    Departure: the code gives 0 and not −1 to an answer that its verifier cannot read; here both are wrong. A group that is
    all right learns from lengths alone.
    """

    alpha: NonNegativeFloat = 0.05
    from_tokens: Natural = 4000
    low: NonNegativeFloat = 0.4
    """w of an easy prompt."""
    gain: NonNegativeFloat = 1.1
    """w of a hard prompt, above `low`; 0 with `low: 1`: no weight."""
    slope: NonNegativeFloat = 10.0
    middle: NonNegativeFloat = 0.75

    min_group = 2

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        key = inputs.key("sample")
        right = inputs.values > MIN_SPREAD
        lengths = inputs.tokens.astype(np.float64)
        rewards = np.where(right, self._length_reward(lengths, right, key), -1.0)
        advantages = divide_by_group_std(centre(rewards, key), key)
        share = group_mean(right.astype(np.float64), key)
        weight = np.where(advantages > 0, self._weight(share), self._weight(1 - share))
        return replace(inputs, values=weight * advantages)

    def _length_reward(self, lengths: Floats, right: Bools, key: Ints) -> Floats:
        rewards = np.ones_like(lengths)
        for group in np.unique(key):
            members = key == group
            shortest = np.sort(lengths[members])[:SHORTEST]
            if len(shortest) == SHORTEST and float(shortest.mean()) <= self.from_tokens:
                continue
            rows = members & right
            if rows.sum() > 1:
                z = (lengths[rows] - lengths[rows].mean()) / (lengths[rows].std(ddof=1) + EPSILON)
                rewards[rows] = np.exp(-self.alpha * z)
        return rewards

    def _weight(self, x: Floats) -> Floats:
        return self.low + self.gain / (1 + np.exp(self.slope * (x - self.middle)))


STEPS = {"lead": Lead}

ESTIMATORS: tuple[Estimator, ...] = ()
