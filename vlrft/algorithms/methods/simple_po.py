"""Simple Policy Optimization."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.quadratic import Quadratic

ALGORITHMS = (
    Algorithm(
        name="simple_po",
        doc="GRPO's advantage with a quadratic penalty on the ratio in the place of its clip.",
        paper="arXiv 2401.16025",
        objective=Quadratic(),
        advantage="standardised",
        notes="The paper's experiments are control tasks with a critic; the advantage here is GRPO's. No KL penalty.",
    ),
)
