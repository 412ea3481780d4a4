"""S-GRPO for noisy rewards."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio

ALGORITHMS = (
    Algorithm(
        name="s_grpo",
        doc="GRPO for rewards that are wrong with a known chance: groups weigh less the more of their spread may be noise.",
        paper="S-GRPO, Mitigating Think-Answer Mismatch in LLM Reasoning; released code",
        objective=ClippedRatio(),
        advantage=({"step": "noise_aware"},),
        reduction="constant",
        notes="The chance is 0.1, the authors' for 7B models; 0.15 for smaller ones: `{step: noise_aware, flip: 0.15}`. Token sums over the longest completion, as in Dr. GRPO. No KL penalty.",
    ),
)
