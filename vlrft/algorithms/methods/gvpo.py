"""GVPO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.gvpo import Gvpo

ALGORITHMS = (
    Algorithm(
        name="gvpo",
        doc="Regression of implied on given rewards within each group; rollouts may come from any policy.",
        paper="arXiv 2504.19599, Eq. 9",
        objective=Gvpo(),
        reduction="group_sum",
        notes="With reference: old and one update per batch its two regularising terms cancel: set updates_per_batch to 2 "
        "or more. Top-p and top-k take away the full support that its theorem asks for.",
    ),
)
