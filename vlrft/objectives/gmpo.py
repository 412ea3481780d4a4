"""GMPO, Geometric-Mean Policy Optimization, with the variants of its ablations."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from pydantic import model_validator
from torch import Tensor

from vlrft.config import strict
from vlrft.config.idle import refuse_idle
from vlrft.objectives.clip_metrics import clip_shares
from vlrft.objectives.loss_batch import LossBatch
from vlrft.objectives.numerics import MAX_LOG_RATIO
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.ranges import NonNegativeFloat

Aggregate = Literal["geometric", "arithmetic", "harmonic", "interquartile"]


@strict
class Gmpo:
    """One term a row: the advantage times the geometric mean of the row's importance ratios.

    L_i = −A_i · exp( 1/|o_i| Σ_t d̄_it ),   d_it = log π(o_it) − log π_old(o_it)
    d̄_it = min(d_it, ε_high) where A ≥ 0,  max(d_it, −ε_low) where A < 0

    GMPO, arXiv 2507.20673, Algorithm 1: the clip is one-sided, in log space, and comes before the mean.
    ε = 0.4 is a ratio within (0.670, 1.492). The ablations are `clip` and `normalise` (table 3) and `aggregate`
    (table 5). Whatever is exponentiated is clamped to ±20. Assumes one advantage a row; where the tokens of a row
    differ, each decides its own side of the clip and L_i is their mean.

    Departures: without normalisation the paper prints Π_t |ρ_t A|, a factor |A|^|o|; its code multiplies A once, and
    so does `normalise: false`. The authors' code is right for one rollout a micro-batch only.
    """

    clip: Literal["token", "sequence", "none"] = "token"
    """sequence: Σ_t d_t is clipped, then divided by |o|: the ratio stays within e^(±ε/|o|)."""
    normalise: bool = True
    """Divide the exponent by |o|; false: the ratio of the whole sequence, −A · exp(Σ_t d̄_t)."""
    aggregate: Aggregate = "geometric"
    """Mean of e^(d̄_t) over the row. interquartile: of the ranks ⌊n/4⌋+1 … ⌈3n/4⌉, equal ones in order of position."""
    clip_low: NonNegativeFloat = 0.4
    """ε_low, in log space."""
    clip_high: NonNegativeFloat = 0.4
    """ε_high, in log space."""

    @model_validator(mode="after")
    def _fits(self) -> Gmpo:
        if self.aggregate != "geometric" and (self.clip == "sequence" or not self.normalise):
            raise ValueError(
                f"aggregate: {self.aggregate} is a mean over tokens; it goes with clip: token or none and normalise: true"
            )
        if self.clip == "none":
            unless = "clip: token or sequence"
            refuse_idle(self, "clip_low", "clip_high", beside="clip: none", unless=unless)
        return self

    @property
    def needs(self) -> Needs:
        return Needs(old_logprobs=True)

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        assert batch.old_logprobs is not None
        mask, advantages = batch.mask, batch.advantages
        moved = (logprobs - batch.old_logprobs).masked_fill(~mask, 0.0)
        if self.clip == "sequence":
            moved = moved.sum(1, keepdim=True)
        if self.clip == "none":
            clipped, observed = moved, {}
        else:
            clipped = one_sided(moved, advantages, self.clip_low, self.clip_high)
            observed = dict(clip_shares(moved, advantages, -self.clip_low, self.clip_high))
        if self.aggregate != "geometric":
            ratio = mean_ratio(clipped, mask, self.aggregate)
        else:
            total = clipped if self.clip == "sequence" else clipped.sum(1, keepdim=True)
            ratio = _exp(total / _count(mask) if self.normalise else total)
        return Terms(values=-advantages * ratio, observed=observed)


def one_sided(
    moved: Float[Tensor, "B #T"],  # noqa: F821 (an axis of 1 or T)
    advantages: Float[Tensor, "B T"],
    low: float,
    high: float,
) -> Float[Tensor, "B T"]:
    """min(d, high) where A ≥ 0, max(d, −low) where A < 0: bounded only in the direction in which the advantage
    pushes."""
    return torch.where(advantages >= 0, moved.clamp(max=high), moved.clamp(min=-low))


def mean_ratio(
    logs: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    kind: Literal["arithmetic", "harmonic", "interquartile"],
) -> Float[Tensor, "B 1"]:
    """A mean of e^d over each row's action tokens; finite for a row without any."""
    count = _count(mask)
    if kind == "arithmetic":
        return (_exp(logs) * mask).sum(1, keepdim=True) / count
    if kind == "harmonic":
        inverse = (_exp(-logs) * mask).sum(1, keepdim=True)
        return count / inverse.where(mask.any(1, keepdim=True), torch.ones_like(inverse))
    ranked = _exp(logs).masked_fill(~mask, torch.inf).sort(dim=1, stable=True).values
    tokens, rank = mask.sum(1, keepdim=True), torch.arange(mask.shape[1], device=mask.device)
    inner = (rank >= tokens // 4) & (rank < (3 * tokens + 3) // 4)
    return ranked.masked_fill(~inner, 0.0).sum(1, keepdim=True) / _count(inner)


def _exp(exponent: Tensor) -> Tensor:
    return exponent.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def _count(mask: Bool[Tensor, "B T"]) -> Tensor:
    return mask.sum(1, keepdim=True).clamp(min=1)


OBJECTIVES = {"gmpo": Gmpo}
