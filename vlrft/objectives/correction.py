"""Importance correction: weights for tokens that another policy sampled than the one at the start of the step."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.config import strict
from vlrft.objectives.loss_batch import LossBatch
from vlrft.objectives.numerics import MAX_LOG_RATIO
from vlrft.objectives.objective import Terms
from vlrft.schema.ranges import Range


@strict
class Correction:
    """Multiplies each term of the objective by a weight without gradient.

    ℓ_it ← w_it · ℓ_it,   d_it = log π_old(o_it) − log π_sampled(o_it)
    level token:     r_it = exp(d_it)              rule truncate:  w = min(r, C)
    level sequence:  r_it = exp(1/|o_i| Σ_t d_it)  rule mask:      w = r where r ≤ C, else 0

    Three policies (decoupled; Hilton et al., arXiv 2110.00641, Eq. 6; AReaL, arXiv 2505.24298, Eq. 5): π_sampled, as the
    rollout engine reported it, which may be steps old or rounded otherwise; π_old, recomputed by the trainer at the start
    of the step; π, whose ratio to π_old is the objective's own. Truncation: Ionides (2008), for language models Yao et
    al. (2025), "Your efficient RL framework secretly brings you off-policy RL training". Mask: Liu et al. (2025), "When
    speed kills stability", token and sequence MIS.

    Departures: the ratio of a sequence is the geometric mean over its tokens, as in GSPO (arXiv 2507.18071, Eq. 7), where
    both papers take the product, which grows with the length. A masked token counts in the denominators like any other,
    so that the mean stays one over what was sampled. The exponent is clamped to ±20. Tokens that were not sampled here
    (NaN) have weight 1 and are not in the mean.

    Assumes that π_sampled has the support of π: with top_p or top_k the sampler's log-probs are those of fewer tokens,
    and the ratio is below 1 without any step between them (huggingface/trl#6789).
    """

    level: Literal["token", "sequence"] = "token"
    """Whose ratio: each token's, or the geometric mean of a row's tokens."""
    rule: Literal["truncate", "mask"] = "truncate"
    """A ratio above `cap` becomes `cap` (truncate), or its tokens have no gradient (mask)."""
    cap: Annotated[float, Range(ge=1)] = 2.0
    """C."""

    def __call__(self, terms: Terms, batch: LossBatch) -> Terms:
        """The weighted terms, with each token's weight and whether the rule changed it."""
        ratios = self.ratios(batch)
        touched = ratios > self.cap
        weights = ratios.clamp(max=self.cap)
        if self.rule == "mask":
            weights = weights.masked_fill(touched, 0.0)
        shares = {"correction/weight": weights, "correction/touched": touched.to(weights.dtype)}
        return replace(terms, values=weights * terms.values, observed={**terms.observed, **shares})

    @torch.no_grad()
    def ratios(self, batch: LossBatch) -> Float[Tensor, "B T"]:
        """r: 1 where the sampler's log-prob is not known."""
        assert batch.old_logprobs is not None
        if batch.sampled_logprobs is None:
            return torch.ones_like(batch.old_logprobs)
        gap = batch.old_logprobs.detach() - batch.sampled_logprobs
        known = batch.mask & ~gap.isnan()
        gap = gap.masked_fill(~known, 0.0)
        if self.level == "sequence":
            count = known.sum(1, keepdim=True).clamp(min=1)
            gap = (gap.sum(1, keepdim=True) / count).expand_as(gap).masked_fill(~known, 0.0)
        return gap.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
