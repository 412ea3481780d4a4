"""NGRPO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio

ALGORITHMS = (
    Algorithm(
        name="ngrpo",
        doc="GRPO with a virtual best answer in each group, so that groups that are all wrong teach, and a stronger clip of what falls.",
        paper="NGRPO, Negative-enhanced Group Relative Policy Optimization; released code and script",
        objective=ClippedRatio(clip_low=0.16, clip_high=0.24),
        advantage=({"step": "virtual_best"},),
        notes="The best reward is 1 (`{step: virtual_best, value: 2.0}`). The released script drops groups that are all right, which get no advantage here. No KL penalty.",
    ),
)
