"""DCPO, without its smoothed advantage."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.dynamic_clip import DynamicClip

ALGORITHMS = (
    Algorithm(
        name="dcpo_clip",
        doc="GRPO with clip bounds that are wider for tokens of low probability: DCPO's dynamic clip alone.",
        paper="arXiv 2509.02333, released code",
        objective=DynamicClip(),
        advantage="standardised",
        notes="The paper's other half, an advantage smoothed over the earlier visits of a prompt, is not in it. Its mean over "
        "a response's tokens is summed over responses; here it is averaged, a factor of the learning rate. No KL penalty.",
    ),
)
