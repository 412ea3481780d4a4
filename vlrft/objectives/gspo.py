"""GSPO, Group Sequence Policy Optimization: one importance ratio a sequence, clipped as a whole."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.config import strict
from vlrft.objectives.clip_metrics import clip_shares
from vlrft.objectives.loss_batch import LossBatch
from vlrft.objectives.numerics import MAX_LOG_RATIO
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.ranges import NonNegativeFloat


@strict
class Gspo:
    """The clipped surrogate on the length-normalised ratio of the row.

    ℓ_it = −min( s_i A_it, clip(s_i, 1 − ε_low, 1 + ε_high) A_it )
    s_i = exp( 1/|o_i| Σ_t d_it ),   d_it = log π(o_it) − log π_old(o_it)

    GSPO, arXiv 2507.18071, Eq. 5–7. `token: true` is GSPO-token (Eq. 13–14): s_it = sg[s_i] · π(o_it) / sg[π(o_it)] in
    the place of s_i; the value is the same, and the tokens of a row may differ in their advantages. With equal ones the
    gradient is that of the sequence form. The mean, which is exponentiated, is clamped to ±20.
    """

    token: bool = False
    """GSPO-token; wanted where advantages differ within a row."""
    clip_low: NonNegativeFloat = 3e-4
    clip_high: NonNegativeFloat = 4e-4

    @property
    def needs(self) -> Needs:
        return Needs(old_logprobs=True)

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        assert batch.old_logprobs is not None
        advantages = batch.advantages
        moved = (logprobs - batch.old_logprobs).masked_fill(~batch.mask, 0.0)
        count = batch.mask.sum(1, keepdim=True).clamp(min=1)
        mean = (moved.sum(1, keepdim=True) / count).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        if self.token:
            mean = mean.detach() + logprobs - logprobs.detach()
        ratio = mean.exp()  # [B 1], or [B T] of equal numbers with a gradient each
        clipped = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        values = -torch.minimum(ratio * advantages, clipped * advantages)
        observed = clip_shares(ratio, advantages, 1 - self.clip_low, 1 + self.clip_high)
        return Terms(values=values, observed=observed)


OBJECTIVES = {"gspo": Gspo}
