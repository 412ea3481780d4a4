"""GiGPO: credit to the episode and to each of its steps."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.objectives.regularizer import Regularizer

_PAPER = "arXiv 2505.10978"

ALGORITHMS = (
    Algorithm(
        name="gigpo",
        doc="GRPO over episodes, and over the steps of a group's episodes that answer the same observation.",
        paper=f"{_PAPER}, Eq. 3-9",
        objective=ClippedRatio(),
        advantage="gigpo",
        reduction="token",
        regularize=Regularizer(kl=0.01),
        notes="For tasks with an environment; with episodes of one turn it is GRPO.",
    ),
    Algorithm(
        name="gigpo_released",
        doc="GiGPO as its authors' code runs it: the episode's part is compared over steps, so that long episodes weigh more.",
        paper=f"{_PAPER}, released code",
        objective=ClippedRatio(dual_clip=3.0),
        advantage="gigpo_turns",
        reduction="token",
        regularize=Regularizer(kl=0.01),
    ),
)
