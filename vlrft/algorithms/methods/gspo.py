"""GSPO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.gspo import Gspo

ALGORITHMS = (
    Algorithm(
        name="gspo",
        doc="One length-normalised importance ratio per answer, clipped as a whole within a very narrow range.",
        paper="arXiv 2507.18071, Eq. 5-7",
        objective=Gspo(),
        advantage="standardised",
        notes="No KL penalty.",
    ),
)
