"""RAFT."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.policy_gradient import PolicyGradient
from vlrft.selection.rollout_filters import Positives

ALGORITHMS = (
    Algorithm(
        name="raft",
        doc="Maximum likelihood of the policy's correct answers, each weighted by its reward.",
        paper="arXiv 2304.06767; arXiv 2504.11343",
        objective=PolicyGradient(),
        advantage="reward",
        select=Positives(),
        notes="An answer is correct when its reward is at least select.threshold; the mean is over correct answers only, "
        "as in the papers. The authors' code (Minimal-RL) keeps the others with a weight of 0 in a mean over tokens, which makes "
        "a step shorter where few answers are correct, and adds a KL penalty of 0.001.",
    ),
)
