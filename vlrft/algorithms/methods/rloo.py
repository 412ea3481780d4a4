"""RLOO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio

ALGORITHMS = (
    Algorithm(
        name="rloo",
        doc="Policy gradient on the reward above the mean of the other answers to the same sample.",
        paper="arXiv 2402.14740",
        objective=ClippedRatio(),
        advantage="rloo",
        reduction="token",
        notes="With one update per batch of rollouts the ratio is 1 and the gradient that of −log π · A; with several it is clipped. A group of one answer is an error. The paper sums over the tokens of an answer and averages over answers, "
        "a step that is longer by the mean length; TRL's RLOOTrainer also clips the ratio of whole answers, and subtracts a KL "
        "penalty from the rewards (0.05). Here it is a mean over tokens, and no KL penalty.",
    ),
)
