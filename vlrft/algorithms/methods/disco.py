"""DisCO, and DRPO, which also prefers short right answers."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.disco import Disco

_MARKS = ({"step": "right_or_wrong"},)
_NOTES = "A reward of 1 or more is right, of 0 or less wrong; others are not compared: `{step: right_or_wrong, right: 0.8}`."

ALGORITHMS = (
    Algorithm(
        name="disco",
        doc="Right answers of a group are made more likely than its wrong ones, the likeliest of these above all.",
        paper="DisCO, Discriminative Constrained Optimization; released code",
        objective=Disco(),
        advantage=_MARKS,
        reduction="group_sum",
        notes=_NOTES,
    ),
    Algorithm(
        name="drpo",
        doc="DisCO in which a shorter right answer counts more; a long right answer is never discouraged.",
        paper="DRPO, Decoupled Reward Policy Optimization; released code",
        objective=Disco(length_temperature=0.1),
        advantage=_MARKS,
        reduction="group_sum",
        notes=_NOTES,
    ),
)
