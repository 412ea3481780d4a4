"""DAPO."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.selection.group_filters import DynamicSampling

_PAPER = "arXiv 2503.14476"
_OBJECTIVE = ClippedRatio(clip_low=0.2, clip_high=0.28)
_PENALTY = ("overlong", "centre", "scale")

ALGORITHMS = (
    Algorithm(
        name="dapo",
        doc="GRPO with a higher upper clip, a mean over tokens, only mixed groups, and a penalty on long answers.",
        paper=f"{_PAPER}, Eq. 8-13",
        objective=_OBJECTIVE,
        advantage=_PENALTY,
        reduction="token",
        keep=DynamicSampling(),
        notes="A truncated answer gets the whole penalty and is trained on: without overlong filtering, as most runs of the "
        "paper, its best one included, by the authors' account in verl's documentation. The paper's rewards are 1 and −1: with "
        "1 and 0, `{step: overlong, penalty: 0.5}` weighs as much as there. No KL penalty.",
    ),
    Algorithm(
        name="dapo_overlong_filter",
        doc="DAPO with overlong filtering as well: a truncated answer is not trained on.",
        paper=f"{_PAPER}, section 3.4",
        objective=_OBJECTIVE,
        advantage=(*_PENALTY, "mute_truncated"),
        reduction="token",
        keep=DynamicSampling(),
        notes="The penalty then reaches only answers that end within the last fifth of the limit. A truncated answer has an "
        "advantage of 0 and still counts in its group's baseline and in the number of tokens; `select: drop_truncated` in "
        "place of the step `mute_truncated` takes it out of that number. No KL penalty.",
    ),
)
