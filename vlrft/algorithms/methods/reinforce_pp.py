"""REINFORCE++."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio

ALGORITHMS = (
    Algorithm(
        name="reinforce_pp",
        doc="Policy gradient on rewards that are centred in their group and whitened over the tokens of the whole step.",
        paper="arXiv 2501.03262, the variant with a baseline",
        objective=ClippedRatio(),
        advantage="reinforce_pp",
        reduction="token",
        notes="As the authors' code (OpenRLHF): a long answer counts more in the mean and in the standard deviation, so that "
        "groups of equal rewards get an advantage, too, and are trained on. `advantage: [centre, whiten]` counts every answer "
        "once and leaves such groups at 0. No KL penalty: add `regularize: {kl: …, kl_estimator: k2}`. With one update per batch of rollouts the ratio is 1 and the gradient that of −log π · A; with several it is clipped.",
    ),
)
