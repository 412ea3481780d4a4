"""Dr. GRPO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio

ALGORITHMS = (
    Algorithm(
        name="dr_grpo",
        doc="GRPO without its two biases: rewards are not divided by their spread, sums not by the answer's length.",
        paper="arXiv 2503.20783, Eq. 2 and 3",
        objective=ClippedRatio(),
        advantage="centred",
        reduction="constant",
        notes="The sum over tokens is divided by the configured longest completion, not by the tokens of the batch; no KL penalty.",
    ),
)
