"""CW-GRPO: tokens whose log-prob moves oddly with the advantage count less."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.config import strict
from vlrft.objectives.loss_batch import LossBatch, per_group, row_advantage
from vlrft.objectives.numerics import log_ratio
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.errors import ObjectiveError

MIN_VARIANCE = 1e-12  # below it c is rounding


@strict
class CovarianceWeighted:
    """The policy gradient with a Gaussian kernel over each token's share of the covariance of log-prob and advantage.

    ℓ_it = −ρ_it · w̃_it · A_i,   w̃_it = w_it · N / Σ_g w,   w_it = exp( −c_it² / (2σ²) )
    c_it = (log π(o_it) − mean_t log π(o_i·)) · (A_i − mean_g A),   σ² = mean_g c²

    CW-GRPO, arXiv 2605.11538: N, σ and Σ w over the action tokens of the group, so the mean weight is 1; nothing to
    tune. The mean of log π is of the row (turn). Weights are detached; σ = 0 gives w = 1. The algorithm adds k3 with
    β = 0.04. mean_g A is over the rollouts that have tokens. w depends on differences of log-probs, in which the
    rounding of a log-prob weighs more than in itself; so w is computed in float64.

    Departures: the authors' code (`released`) lets the gradient through w and takes N = G · max_i |o_i|, padding
    included, so that its weights have a mean above 1 that grows with padding. It has each group whole in a micro-batch;
    so must a run that uses `released`. This is their GRPO trainer; their Dr. GRPO trainer writes −c²/2·σ², which is
    −c²σ²/2 and no kernel of width σ, and is not here.
    """

    released: bool = False
    """As the authors' code: weights with a gradient, N counts padding."""

    @property
    def needs(self) -> Needs:
        return Needs(old_logprobs=True, group_stats=True)

    def group_stats(
        self, logprobs: Float[Tensor, "B T"], batch: LossBatch
    ) -> Mapping[str, Float[Tensor, " B"]]:
        """mean_g A, σ² and N / Σ w of each row's group."""
        tokens = batch.mask.sum(1)
        filled = (tokens > 0).to(logprobs.dtype)
        share = filled * tokens / batch.rollout_tokens.clamp(min=1)  # of the row in its rollout
        rollout_advantage = row_advantage(batch) * share
        centre = per_group(rollout_advantage, batch) / per_group(share, batch).clamp(min=1)
        c = _covariance(logprobs, batch, centre)
        count = batch.group_tokens.clamp(min=1)
        variance = per_group((c**2).sum(1), batch) / count
        weights = per_group((_kernel(c, variance) * batch.mask).sum(1), batch)
        if self.released:
            empty = tokens.new_zeros(int(batch.group.max()) + 1 if len(batch.group) else 1)
            longest = empty.scatter_reduce(0, batch.group, tokens, "amax")
            count = per_group(torch.ones_like(filled), batch) * longest[batch.group]
        return {"centre": centre, "variance": variance, "scale": count / weights.clamp(min=1e-12)}

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        assert batch.old_logprobs is not None
        if self.released and bool(
            (per_group(batch.mask.sum(1), batch) != batch.group_tokens).any()
        ):
            raise ObjectiveError(
                "cw_grpo with released: true needs each group whole in a micro-batch, for the gradient through its "
                "weights; raise update.max_tokens_per_micro_batch, or leave released out"
            )
        weighing = logprobs if self.released else logprobs.detach().double()
        if batch.stats is None or self.released:
            stats = self.group_stats(weighing, batch)
        else:
            stats = batch.stats
        c = _covariance(weighing, batch, stats["centre"])
        kernel = _kernel(c, stats["variance"])
        ratio = log_ratio(logprobs, batch.old_logprobs).exp()
        weights = (kernel * stats["scale"][:, None]).to(logprobs)
        return Terms(
            values=-ratio * weights * batch.advantages,
            observed={
                "weight": weights.detach(),
                "weight/below_half": (kernel.detach() < 0.5).to(kernel.dtype),
            },
        )


def _covariance(
    logprobs: Float[Tensor, "B T"], batch: LossBatch, centre: Float[Tensor, " B"]
) -> Float[Tensor, "B T"]:
    """c of each action token; 0 elsewhere."""
    tokens = batch.mask.sum(1, keepdim=True).clamp(min=1)
    mean = (logprobs * batch.mask).sum(1, keepdim=True) / tokens
    lift = (row_advantage(batch) - centre)[:, None]
    return (logprobs - mean) * lift * batch.mask


def _kernel(c: Float[Tensor, "B T"], variance: Float[Tensor, " B"]) -> Float[Tensor, "B T"]:
    """exp(−c² / 2σ²); 1 where σ is 0."""
    flat = variance <= MIN_VARIANCE
    return (-0.5 * c**2 / variance.masked_fill(flat, 1.0)[:, None]).exp()


OBJECTIVES = {"covariance_weighted": CovarianceWeighted}
