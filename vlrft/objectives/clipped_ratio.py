"""The clipped importance ratio: GRPO and every algorithm that is a setting of it."""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.config import strict
from vlrft.objectives.clip_metrics import clip_shares
from vlrft.objectives.loss_batch import LossBatch
from vlrft.objectives.numerics import log_ratio
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.ranges import NonNegativeFloat, Range


@strict
class ClippedRatio:
    """PPO's clipped surrogate (Schulman et al., arXiv 1707.06347, Eq. 7).

    ℓ_it = −min( ρ_it A_it, clip(ρ_it, 1 − ε_low, 1 + ε_high) A_it ),   ρ = π / π_old

    At the first update after sampling ρ ≡ 1. The exponent of ρ is clamped to ±20. GRPO (DeepSeekMath, arXiv
    2402.03300, Eq. 3) is this with ε = 0.2 and a KL penalty, which is the algorithm's `regularize`.
    """

    clip_low: NonNegativeFloat = 0.2
    clip_high: NonNegativeFloat = 0.2
    dual_clip: Annotated[float, Range(gt=1)] | None = None
    """c: where A < 0, ℓ is at most −c A (Ye et al., arXiv 1912.09729, Eq. 5); null: no bound."""

    @property
    def needs(self) -> Needs:
        return Needs(old_logprobs=True)

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        assert batch.old_logprobs is not None
        ratio = log_ratio(logprobs, batch.old_logprobs).exp()
        clipped = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        advantages = batch.advantages
        values = -torch.minimum(ratio * advantages, clipped * advantages)
        if self.dual_clip is not None:
            bounded = torch.minimum(values, -self.dual_clip * advantages)
            values = torch.where(advantages < 0, bounded, values)
        observed = clip_shares(ratio, advantages, 1 - self.clip_low, 1 + self.clip_high)
        return Terms(values=values, observed=observed)


OBJECTIVES = {"clipped_ratio": ClippedRatio}
