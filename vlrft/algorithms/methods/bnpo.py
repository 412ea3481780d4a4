"""BNPO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio

ALGORITHMS = (
    Algorithm(
        name="bnpo",
        doc="The centred reward divided by a Beta density fitted to the step's mean rewards, in the place of GRPO's deviation.",
        paper="BNPO, Beta Normalization Policy Optimization; released code",
        objective=ClippedRatio(),
        advantage=({"step": "beta_normalise"},),
        notes="Rewards must be from 0 to 1; others are mapped by `{step: beta_normalise, low: -1, high: 2}`. No KL penalty.",
    ),
)
