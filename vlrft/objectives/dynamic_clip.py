"""DCPO's clip: wider bounds for tokens that were improbable when they were sampled."""

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

SMALLEST = -60.0  # log q below which both bounds are at their limits whatever ε is


@strict
class DynamicClip:
    """The clipped surrogate whose bounds follow from the token's probability q under the policy that sampled.

    ℓ_it = −min( ρ_it A_it, clip(ρ_it, low_it, high_it) A_it ), at most −c A_it where A_it < 0
    low = ½ (1 + √max(0, 1 − 4 ε_low / q)),   high = min( ½ (1 + √(1 + 4 ε_high / q)), c ),   q = π_old(o_it)

    DCPO, Dynamic Clipping Policy Optimization; released code, lime-RL/DCPO, verl/trainer/ppo/core_algos.py. The bounds
    solve |ρ (ρ − 1)| q = ε, so that the change of probability is bounded and not that of the ratio: q → 1 with ε 0.2
    and 0.28 is (0.724, 1.228), q < 4 ε_low is (½, …). c is the released code's `clip_ratio_c`, never below 10 there, which
    also bounds the loss as in dual-clip PPO.

    Departures: the paper's smoothed advantage, which remembers a prompt's earlier rewards, is not part of it. The exponent
    of ρ is clamped to ±20.
    """

    clip_low: NonNegativeFloat = 0.2
    """ε_low."""
    clip_high: NonNegativeFloat = 0.28
    """ε_high."""
    cap: Annotated[float, Range(gt=1)] = 10.0
    """c."""

    @property
    def needs(self) -> Needs:
        return Needs(old_logprobs=True)

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        assert batch.old_logprobs is not None
        ratio, advantages = log_ratio(logprobs, batch.old_logprobs).exp(), batch.advantages
        low, high = self.bounds(batch.old_logprobs)
        clipped = torch.minimum(torch.maximum(ratio, low), high)
        values = -torch.minimum(ratio * advantages, clipped * advantages)
        bounded = torch.minimum(values, -self.cap * advantages)
        values = torch.where(advantages < 0, bounded, values)
        return Terms(values=values, observed=clip_shares(ratio, advantages, low, high))

    def bounds(
        self, old_logprobs: Float[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
        """low, high."""
        inverse = (-old_logprobs.clamp(min=SMALLEST)).exp()
        low = 0.5 * (1 + (1 - 4 * self.clip_low * inverse).clamp(min=0).sqrt())
        high = 0.5 * (1 + (1 + 4 * self.clip_high * inverse).sqrt())
        return low, high.clamp(max=self.cap)


OBJECTIVES = {"dynamic_clip": DynamicClip}
