"""The REC family: group-relative REINFORCE as an off-policy method, by which tokens it trains on and with which weight."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vlrft.config import strict
from vlrft.config.idle import refuse_idle
from vlrft.objectives.loss_batch import LossBatch
from vlrft.objectives.numerics import MAX_LOG_RATIO, log_ratio
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.ranges import NonNegativeFloat, PositiveFloat, Range


@strict
class OffPolicy:
    """REINFORCE on the tokens whose ratio is within a range; the ratio decides, and has no gradient.

    ℓ_it = −w_it A_it log π(o_it) · 1[in range] + regulariser,   ρ_it = sg[π / π_old]
    in range   none: every token · two_side: 1 − ε_low ≤ ρ ≤ 1 + ε_high
               one_side: ρ ≤ 1 + ε_high where A ≥ 0, ρ ≥ 1 − ε_low where A ≤ 0
               ring: two_side, or ρ ≤ 1 − ε'_low where A ≥ 0, or ρ ≥ 1 + ε'_high where A ≤ 0
               sequence: one_side on e^(mean over the row of log ρ)
    w          one: 1 · ratio: ρ · truncated: clip(ρ, 1 − ε'_low, 1 + ε'_high) · sequence: e^(mean log ρ)
               advantage: e^(A / temperature)
    regulariser   k2: τ (log π − log π_old)² · forward_kl: −τ log π · none

    REC, arXiv 2509.24203; released code, agentscope-ai/Trinity-RFT, policy_loss_fn/rec_policy_loss.py, whose names are
    REC-OneSide-NoIS (`range: one_side`), REC-OneSide-IS (with `weight: ratio`), REC-Ring-NoIS, REC-TwoSide-…, and
    RED-Weight (`range: none, weight: advantage`). AsymRE is `range: none` with the step `shift`; OPMD is `regularizer: k2`,
    its other baseline the step `log_mean_exp`. The advantage is r − μ without a standard deviation, and the reduction
    `token`; `range: sequence` wants `sequence`.

    Departures: the k2 term absorbs Kimi's ½ in τ, as the code does. `weight: sequence` is defined for every range, and not for
    `range: sequence` alone. Every exponent is clamped to ±20.
    """

    range: Literal["none", "two_side", "one_side", "ring", "sequence"] = "one_side"
    weight: Literal["one", "ratio", "truncated", "sequence", "advantage"] = "one"
    regularizer: Literal["none", "k2", "forward_kl"] = "none"
    coefficient: NonNegativeFloat | None = None
    """τ, of a regularizer."""
    clip_low: Annotated[float, Range(gt=0, le=1)] = 0.2
    clip_high: PositiveFloat = 0.2
    far_low: Annotated[float, Range(gt=0, le=1)] = 0.6
    """ε'_low."""
    far_high: PositiveFloat = 2.0
    """ε'_high."""
    temperature: PositiveFloat = 1.0

    def __post_init__(self) -> None:
        if self.regularizer != "none" and self.coefficient is None:
            raise ValueError(
                f"regularizer: {self.regularizer} needs a coefficient; give one, such as coefficient: 0.1"
            )
        if self.regularizer == "none" and self.coefficient is not None:
            raise ValueError(
                f"coefficient: {self.coefficient} is that of a regularizer, and there is none: give regularizer: k2 or "
                "forward_kl, or leave it out"
            )
        if self.range == "none":
            clips = ("clip_low", "clip_high")
            refuse_idle(self, *clips, beside="range: none", unless="another range")
        if self.range != "ring" and self.weight != "truncated":
            present = f"range: {self.range} and weight: {self.weight}"
            unless = "range: ring or weight: truncated"
            refuse_idle(self, "far_low", "far_high", beside=present, unless=unless)
        if self.weight != "advantage":
            present = f"weight: {self.weight}"
            refuse_idle(self, "temperature", beside=present, unless="weight: advantage")

    @property
    def needs(self) -> Needs:
        return Needs(
            old_logprobs=True,
            zero_signal_groups=bool(self.coefficient),
        )

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        assert batch.old_logprobs is not None
        advantages = batch.advantages
        ratio, of_row = self._ratios(logprobs.detach(), batch)
        inside = self._in_range(of_row if self.range == "sequence" else ratio, advantages)
        weights = self._weights(ratio, of_row, advantages)
        values = -weights * advantages * logprobs * inside
        if self.coefficient is not None:
            values = values + self.coefficient * self._penalty(logprobs, batch.old_logprobs)
        return Terms(values=values, observed={"ratio/out_of_range": 1 - inside.to(values.dtype)})

    def _penalty(
        self, logprobs: Float[Tensor, "B T"], old_logprobs: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        """The regulariser of each token, without τ."""
        return (logprobs - old_logprobs) ** 2 if self.regularizer == "k2" else -logprobs

    @staticmethod
    def _ratios(
        logprobs: Float[Tensor, "B T"], batch: LossBatch
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
        """ρ of each token, and e^(mean log ρ) of its row."""
        assert batch.old_logprobs is not None
        moved = (logprobs - batch.old_logprobs).masked_fill(~batch.mask, 0.0)
        count = batch.mask.sum(1, keepdim=True).clamp(min=1)
        mean = (moved.sum(1, keepdim=True) / count).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        return log_ratio(logprobs, batch.old_logprobs).exp(), mean.exp().expand_as(moved)

    def _in_range(
        self, ratio: Float[Tensor, "B T"], advantages: Float[Tensor, "B T"]
    ) -> Bool[Tensor, "B T"]:
        if self.range == "none":
            return torch.ones_like(ratio, dtype=torch.bool)
        below, above = ratio <= 1 + self.clip_high, ratio >= 1 - self.clip_low
        gains, loses = advantages >= 0, advantages <= 0
        if self.range in ("one_side", "sequence"):
            return (below & gains) | (above & loses)
        if self.range == "two_side":
            return below & above
        far = (gains & (ratio <= 1 - self.far_low)) | (loses & (ratio >= 1 + self.far_high))
        return (below & above) | far

    def _weights(
        self,
        ratio: Float[Tensor, "B T"],
        of_row: Float[Tensor, "B T"],
        advantages: Float[Tensor, "B T"],
    ) -> Float[Tensor, "B T"]:
        if self.weight == "ratio":
            return ratio
        if self.weight == "truncated":
            return ratio.clamp(1 - self.far_low, 1 + self.far_high)
        if self.weight == "sequence":
            return of_row
        if self.weight == "advantage":
            exponent = (advantages / self.temperature).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
            return exponent.exp()
        return torch.ones_like(ratio)


OBJECTIVES = {"off_policy": OffPolicy}
