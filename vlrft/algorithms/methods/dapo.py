"""DAPO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.selection.group_filters import DynamicSampling

ALGORITHMS = (
    Algorithm(
        name="dapo",
        doc="GRPO with a higher upper clip, a mean over tokens, only mixed groups, and a penalty on long answers.",
        paper="arXiv 2503.14476, Eq. 8-13",
        objective=ClippedRatio(clip_low=0.2, clip_high=0.28),
        advantage=("overlong", "centre", "scale", "mute_truncated"),
        reduction="token",
        keep=DynamicSampling(),
        notes="A truncated answer counts in its group's baseline and in the number of tokens, with an advantage of 0; no KL penalty.",
    ),
)
