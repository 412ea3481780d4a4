"""GVPO, Group Variance Policy Optimization: a regression of the group's implied rewards on its given ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from vlrft.config import strict
from vlrft.objectives.loss_batch import LossBatch, per_group, per_rollout, row_advantage
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.errors import ObjectiveError
from vlrft.schema.ranges import PositiveFloat


@strict
class Gvpo:
    """The centred implied reward of each rollout is to equal its centred reward.

    L = 1/P Σ_g 1/(G−1) Σ_i ½ [ (R_i − mean_g R) − (r_i − μ_g) ]²
    R_i = β (s_i − s'_i),   s_i = Σ_t log π(o_it),   s' under π'
    ∂L/∂s_i = −β/(G−1) · [ (r_i − μ_g) − var·β (s_i − s̄) + cov·β (s'_i − s̄') ]

    GVPO, arXiv 2504.19599, Eq. 9 and Listing 1: sums over the action tokens (all turns), no length normalisation, no
    std, no clip, no importance ratio. The weights of a group sum to zero, so its means may be taken beforehand and
    without a gradient: exact at any micro-batch size. The reduction is `group_sum`. Rollouts may come from any
    distribution of full support (theorem 3.2), stored ones too: s' is always that of the current π', never the
    sampler's. Top-p and top-k take that support away.

    With `reference: old`, one update per batch of rollouts and var = cov, s = s', which leaves REINFORCE with centred
    rewards: use updates_per_batch ≥ 2, or `reference: initial`.

    Departures: the authors' code sums over the local micro-batch, so that its gradient grows with that size, and
    needs each group within one; here it is a mean over groups. Without `var` or `cov` the loss is the ablation's sum of
    terms, and the reported number keeps what does not depend on the policy. An empty completion counts in the means
    with s = 0; its own term, which has no gradient, is not in that number.
    """

    beta: PositiveFloat = 0.1
    reference: Literal["old", "initial"] = "old"
    """π': the policy that began the step, or the one that began the stage."""
    var: bool = True
    """Keep the variance term, ½ β² (s_i − s̄)²."""
    cov: bool = True
    """Keep the covariance term, −β² (s_i − s̄)(s'_i − s̄')."""

    reductions: ClassVar[tuple[str, ...]] = ("group_sum",)
    min_group: ClassVar[int] = 2

    @property
    def needs(self) -> Needs:
        return Needs(
            old_logprobs=self.reference == "old",
            ref_logprobs=self.reference == "initial",
            group_stats=True,
            zero_signal_groups=True,
            replay_old="recomputed",
        )

    def advice(self, *, updates_per_batch: int, full_support: bool) -> list[str]:
        """Warnings about settings with which GVPO is another algorithm, or not defined."""
        warnings: list[str] = []
        if self.reference == "old" and updates_per_batch == 1 and self.var == self.cov:
            warnings.append(
                "gvpo with reference: old and one update per batch is REINFORCE on centred rewards: set "
                "update.updates_per_batch to 2 or more, or objective.reference to initial"
            )
        if not full_support:
            warnings.append(
                "gvpo needs sampling of full support: set rollout.top_p to 1 and rollout.top_k to 0"
            )
        return warnings

    def group_stats(
        self, logprobs: Float[Tensor, "B T"], batch: LossBatch
    ) -> Mapping[str, Float[Tensor, " B"]]:
        """s_i − s̄ and s'_i − s̄' of each row's rollout. Raises ObjectiveError for a group of one."""
        if bool((batch.group_rollouts == 1).any()):
            raise ObjectiveError(
                "gvpo compares the rollouts of a group, and one group has only one"
            )
        other = batch.old_logprobs if self.reference == "old" else batch.ref_logprobs
        assert other is not None
        return {"now": _deviation(logprobs, batch), "other": _deviation(other, batch)}

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        frozen = logprobs.detach()
        stats = self.group_stats(frozen, batch) if batch.stats is None else batch.stats
        now, other, reward = stats["now"], stats["other"], row_advantage(batch)
        weight = -self.beta * (reward - self.var * self.beta * now + self.cov * self.beta * other)
        value = 0.5 * self.var * (self.beta * now) ** 2 + 0.5 * (self.beta * other) ** 2
        value = value - self.cov * self.beta**2 * now * other
        value = value - self.beta * reward * (now - other) + 0.5 * reward**2
        slack = (batch.group_rollouts - 1).to(weight.dtype)
        spread = value / batch.rollout_tokens.clamp(min=1)  # a rollout's term, over its tokens
        values = (weight[:, None] * (logprobs - frozen) + spread[:, None]) / slack[:, None]
        residual = self.beta * (now - other) - reward
        return Terms(
            values=values,
            observed={"gvpo/residual": residual.abs()[:, None].expand_as(logprobs)},
        )


def _deviation(logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Float[Tensor, " B"]:
    """s_i − s̄ of each row's rollout; an empty completion has s = 0."""
    rows = (logprobs * batch.mask).sum(1)
    mean = per_group(rows, batch) / batch.group_rollouts
    return per_rollout(rows, batch) - mean


OBJECTIVES = {"gvpo": Gvpo}
