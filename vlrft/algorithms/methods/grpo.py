"""GRPO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.objectives.regularizer import Regularizer

ALGORITHMS = (
    Algorithm(
        name="grpo",
        doc="Clipped importance ratio on group-standardised rewards with a KL penalty to the initial policy.",
        paper="arXiv 2402.03300, Eq. 3",
        objective=ClippedRatio(),
        advantage="standardised",
        regularize=Regularizer(kl=0.04),
        notes="The paper does not say ε; 0.2 is PPO's. The standard deviation is unbiased and 1e-6 is added to it, as in verl; "
        "TRL adds 1e-4. TRL's trainer now has neither the KL penalty nor the mean over answers by default: that is "
        "`{name: grpo, regularize: {kl: 0}, reduction: token}`.",
    ),
)
