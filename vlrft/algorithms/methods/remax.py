"""ReMax."""

from __future__ import annotations

from vlrft.algorithms.algorithm import Algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio

ALGORITHMS = (
    Algorithm(
        name="remax",
        doc="Policy gradient on the reward above that of the policy's own greedy answer.",
        paper="arXiv 2310.10505, Eq. 6",
        objective=ClippedRatio(),
        advantage="remax",
        reduction="token",
        notes="With one update per batch of rollouts the ratio is 1 and the gradient that of −log π · A; with several it is clipped. Works with one answer per sample. The authors' code, for reward models, also subtracts a KL penalty from the "
        "reward of each token (0.05) and discounts by 0.99 a token; here is neither.",
    ),
)
