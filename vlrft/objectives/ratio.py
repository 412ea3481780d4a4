"""The clipped importance-ratio family: GRPO and every method that is a setting of it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from pydantic import NonNegativeFloat
from torch import Tensor

from vlrft.config import strict
from vlrft.objectives import LossBatch, Needs, Terms, log_ratio
from vlrft.objectives.kl import Estimator, kl


@strict
class ClippedRatio:
    """PPO's clipped surrogate with a KL penalty to a reference policy.

    ℓ_it = −min( ρ_it A_it, clip(ρ_it, 1 − ε_low, 1 + ε_high) A_it ) + β · kl(π, π_ref),   ρ = π / π_old

    GRPO: DeepSeekMath, arXiv 2402.03300, Eq. 3 (ε = 0.2, β = 0.04, k3). At the first update after sampling ρ ≡ 1. The
    exponent of ρ is clamped to ±20. With β > 0 groups without reward spread still feel the penalty and are trained on.
    """

    clip_low: NonNegativeFloat = 0.2
    clip_high: NonNegativeFloat = 0.2
    kl: NonNegativeFloat = 0.0
    """β; 0: the reference model is not loaded."""
    kl_estimator: Estimator = "k3"

    @property
    def needs(self) -> Needs:
        penalised = self.kl > 0
        return Needs(old_logprobs=True, ref_logprobs=penalised, zero_signal_groups=penalised)

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        assert batch.old_logprobs is not None
        ratio = log_ratio(logprobs, batch.old_logprobs).exp()
        clipped = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        advantages = batch.advantages
        values = -torch.minimum(ratio * advantages, clipped * advantages)
        with torch.no_grad():
            high = (ratio > 1 + self.clip_high) & (advantages > 0)
            low = (ratio < 1 - self.clip_low) & (advantages < 0)
            observed = {
                "ratio/clipped_high": high.to(ratio.dtype),
                "ratio/clipped_low": low.to(ratio.dtype),
            }
        if self.kl > 0:
            assert batch.ref_logprobs is not None
            penalty = kl(logprobs, batch.ref_logprobs, self.kl_estimator)
            values = values + self.kl * penalty
            observed["kl/reference"] = penalty.detach()
        return Terms(values=values, observed=observed)
