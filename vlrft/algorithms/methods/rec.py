"""REC, group-relative REINFORCE off-policy."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.off_policy import OffPolicy

ALGORITHMS = (
    Algorithm(
        name="rec",
        doc="REINFORCE without importance sampling on tokens whose ratio is not yet past the clip: REC-OneSide-NoIS.",
        paper="arXiv 2509.24203",
        objective=OffPolicy(),
        advantage="centred",
        reduction="token",
        notes="The family's other members are settings of the objective. AsymRE: `advantage: [centre, shift]` and `objective: "
        "{range: none}`. No KL penalty.",
    ),
)
