"""Estimators of KL(π ‖ π_ref) from the log-probs of sampled tokens (Schulman, "Approximating KL divergence", 2020)."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor

from vlrft.objectives.numerics import log_ratio

Estimator = Literal["k1", "k2", "k3"]


def kl(
    logprobs: Float[Tensor, "B T"], ref: Float[Tensor, "B T"], estimator: Estimator
) -> Float[Tensor, "B T"]:
    """k1 = log π − log π_ref   k2 = ½ (log π − log π_ref)²   k3 = e^d − d − 1 with d = log π_ref − log π"""
    d = log_ratio(ref, logprobs)
    if estimator == "k1":
        return -d
    return 0.5 * d**2 if estimator == "k2" else d.exp() - d - 1
