"""CW-GRPO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.covariance import CovarianceWeighted
from vlrft.objectives.regularizer import Regularizer

ALGORITHMS = (
    Algorithm(
        name="cw_grpo",
        doc="GRPO without a clip; tokens whose log-prob covaries extremely with the advantage count less.",
        paper="arXiv 2605.11538",
        objective=CovarianceWeighted(),
        advantage="standardised",
        regularize=Regularizer(kl=0.04),
    ),
)
