"""Algorithms by name, and the loss core in one call."""

from vlrft.algorithms.algorithm import Algorithm
from vlrft.algorithms.find import ALGORITHMS, find_algorithm, override
from vlrft.algorithms.policy_loss import PolicyLoss, policy_loss

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "PolicyLoss",
    "find_algorithm",
    "override",
    "policy_loss",
]
