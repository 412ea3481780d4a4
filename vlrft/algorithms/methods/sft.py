"""Supervised warm-up."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.policy_gradient import PolicyGradient

ALGORITHMS = (
    Algorithm(
        name="sft",
        doc="Supervised warm-up: maximum likelihood of each sample's gold answer.",
        paper="none needed",
        objective=PolicyGradient(),
        advantage="one",
        reduction="token",
        answers="gold",
    ),
)
