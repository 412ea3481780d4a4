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
    Algorithm(
        name="sft_observations",
        doc="Supervised warm-up that also learns the observations of gold episodes: maximum likelihood of both.",
        paper="none needed",
        objective=PolicyGradient(),
        advantage="one",
        reduction="token",
        answers="gold_and_observations",
        notes="For a growing context, where observations are between the turns of a row: names that a policy without pretraining "
        "reads there, it learns to repeat. Elsewhere it is sft.",
    ),
)
