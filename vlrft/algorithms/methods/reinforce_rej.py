"""Reinforce-Rej."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.selection.group_filters import DynamicSampling

ALGORITHMS = (
    Algorithm(
        name="reinforce_rej",
        doc="Policy gradient on the rewards as they are, over groups that are neither all right nor all wrong.",
        paper="arXiv 2504.11343",
        objective=ClippedRatio(),
        advantage="reward",
        keep=DynamicSampling(max_attempts=1),
        notes="The paper's rewards are 1 and −1: with 1 and 0 a wrong answer has an advantage of 0 and is not trained on. With "
        "one update per batch of rollouts the ratio is 1 and the gradient that of −log π · A; with several it is clipped, as "
        "in the authors' code (Minimal-RL), which takes the mean over tokens and adds a KL penalty of 0.001.",
    ),
)
