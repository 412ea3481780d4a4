"""REINFORCE++."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio

ALGORITHMS = (
    Algorithm(
        name="reinforce_pp",
        doc="Policy gradient on rewards that are centred in their group and whitened over the whole step.",
        paper="arXiv 2501.03262, the variant with a baseline",
        objective=ClippedRatio(),
        advantage="reinforce_pp",
        reduction="token",
        notes="With one update per batch of rollouts the ratio is 1 and the gradient that of −log π · A; with several it is clipped.",
    ),
)
