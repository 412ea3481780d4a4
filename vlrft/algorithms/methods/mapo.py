"""MAPO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio

ALGORITHMS = (
    Algorithm(
        name="mapo",
        doc="GRPO in which groups that are nearly all right or all wrong are compared by their mean.",
        paper="MAPO, Mixed Advantage Policy Optimization; released code",
        objective=ClippedRatio(),
        advantage=({"step": "mixed_deviation"},),
        notes="A reward of exactly 1 is right. No KL penalty.",
    ),
)
