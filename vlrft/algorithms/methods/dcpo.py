"""DCPO, and its clip alone."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.dynamic_clip import DynamicClip

_NOTE = (
    "Its mean over a response's tokens is summed over responses; here it is averaged, a factor of the learning rate. "
    "No KL penalty."
)

ALGORITHMS = (
    Algorithm(
        name="dcpo",
        doc="GRPO with clip bounds that are wider for tokens of low probability, and an advantage smoothed over a prompt's visits.",
        paper="arXiv 2509.02333, released code",
        objective=DynamicClip(),
        advantage=({"step": "smoothed"},),
        notes=_NOTE,
    ),
    Algorithm(
        name="dcpo_clip",
        doc="GRPO with clip bounds that are wider for tokens of low probability: DCPO's dynamic clip alone.",
        paper="arXiv 2509.02333, released code",
        objective=DynamicClip(),
        advantage="standardised",
        notes=_NOTE,
    ),
)
