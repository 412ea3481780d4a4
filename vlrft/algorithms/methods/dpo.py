"""DPO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.dpo import Dpo

ALGORITHMS = (
    Algorithm(
        name="dpo",
        doc="The best against the worst rollout of each group, measured from the initial policy.",
        paper="arXiv 2305.18290, Eq. 7",
        objective=Dpo(),
        advantage="best_against_worst",
        reduction="pair",
    ),
)
