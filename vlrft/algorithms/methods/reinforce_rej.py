"""Reinforce-Rej."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.policy_gradient import PolicyGradient
from vlrft.selection.group_filters import DynamicSampling

ALGORITHMS = (
    Algorithm(
        name="reinforce_rej",
        doc="Policy gradient on the rewards as they are, over groups that are neither all right nor all wrong.",
        paper="arXiv 2504.11343",
        objective=PolicyGradient(),
        advantage="reward",
        keep=DynamicSampling(max_attempts=1),
    ),
)
