"""GRPO-LEAD."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio

ALGORITHMS = (
    Algorithm(
        name="grpo_lead",
        doc="GRPO in which wrong answers cost 1, short right ones earn more where answers are long, and hard prompts weigh more.",
        paper="arXiv 2504.09696, released code",
        objective=ClippedRatio(),
        advantage=({"step": "lead"},),
        notes="Length counts where the three shortest answers of a group average more than 4000 tokens: for shorter tasks set `{step: lead, from_tokens: 0}`. No KL penalty.",
    ),
)
