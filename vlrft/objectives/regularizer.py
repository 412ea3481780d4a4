"""Terms that any algorithm may add to its loss: a KL penalty, an entropy bonus, a correction for an inexact sampler."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.config import strict
from vlrft.objectives.kl import Estimator, kl
from vlrft.objectives.loss_batch import LossBatch
from vlrft.objectives.numerics import MAX_LOG_RATIO
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.ranges import NonNegativeFloat, PositiveFloat


@strict
class Regularizer:
    """ℓ_it ← w_it · ℓ_it + β · kl(π, π_ref) − η · H(π_it),   reduced like the objective's own term.

    With β > 0 or η > 0 groups whose rewards are equal are trained on as well: the penalty acts on them.
    """

    kl: NonNegativeFloat = 0.0
    """β; 0: no reference model is loaded."""
    kl_estimator: Estimator = "k3"
    entropy: NonNegativeFloat = 0.0
    """η: bonus a nat of entropy."""
    correction: Literal["none", "token", "sequence"] = "none"
    """w = min(π_old / π_sampler, C), detached: the sampler's numbers are not quite the trainer's. `sequence`: the ratio
    of the whole row (truncated importance sampling; Yao et al. 2025, "Your efficient RL framework secretly brings you
    off-policy RL training")."""
    correction_cap: PositiveFloat = 2.0
    """C."""

    @property
    def needs(self) -> Needs:
        return Needs(
            old_logprobs=self.correction != "none",
            ref_logprobs=self.kl > 0,
            entropy=self.entropy > 0,
            zero_signal_groups=self.kl > 0 or self.entropy > 0,
        )

    def __call__(self, terms: Terms, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        values, observed = terms.values, dict(terms.observed)
        if self.correction != "none":
            weights = self.weights(batch)
            values = weights * values
            observed["correction"] = weights
        if self.kl > 0:
            assert batch.ref_logprobs is not None
            penalty = kl(logprobs, batch.ref_logprobs, self.kl_estimator)
            values = values + self.kl * penalty
            observed["kl/reference"] = penalty.detach()
        if self.entropy > 0:
            assert batch.entropy is not None
            values = values - self.entropy * batch.entropy
        return replace(terms, values=values, observed=observed)

    @torch.no_grad()
    def weights(self, batch: LossBatch) -> Float[Tensor, "B T"]:
        """Truncated importance weights; 1 where the sampler's log-prob is not known (NaN)."""
        assert batch.old_logprobs is not None
        if batch.sampled_logprobs is None:
            return torch.ones_like(batch.old_logprobs)
        gap = (batch.old_logprobs - batch.sampled_logprobs).nan_to_num(nan=0.0)
        gap = gap.masked_fill(~batch.mask, 0.0)
        if self.correction == "sequence":
            gap = gap.sum(1, keepdim=True).expand_as(gap)
        return gap.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp().clamp(max=self.correction_cap)
