"""GMPO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.gmpo import Gmpo

ALGORITHMS = (
    Algorithm(
        name="gmpo",
        doc="The geometric mean of an answer's clipped token ratios, one term per answer; no KL penalty.",
        paper="arXiv 2507.20673, Algorithm 1",
        objective=Gmpo(),
        advantage="standardised",
    ),
)
