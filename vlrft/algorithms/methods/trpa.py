"""TRPA."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.level_pairs import LevelPairs

ALGORITHMS = (
    Algorithm(
        name="trpa",
        doc="Every pair of a group's answers with different rewards is a preference, within a trust region.",
        paper="TRPA, Trust Region Preference Approximation; released code",
        objective=LevelPairs(),
        advantage=({"step": "mute_flat"},),
        reduction="pair",
        notes="Rewards are levels: 1 or more is the best, whose pairs pull 2.5 times as hard.",
    ),
)
