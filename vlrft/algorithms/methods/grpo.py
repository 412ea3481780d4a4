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
    ),
)
