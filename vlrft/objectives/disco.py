"""DisCO and DRPO: right answers of a group against its wrong ones, within a trust region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.config import strict
from vlrft.config.idle import refuse_idle
from vlrft.objectives.loss_batch import LossBatch, per_group, per_rollout, row_advantage
from vlrft.objectives.numerics import log_ratio
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.errors import ObjectiveError
from vlrft.schema.ranges import NonNegativeFloat, PositiveFloat

TAU = {"likelihood": 10.0, "ratio": 1.0}  # of the released scripts


@strict
class Disco:
    """A term a group with both right (A > 0) and wrong answers (A < 0); the others have only the hinge.

    L_g = −[ Σ_{i right} v_i s_i − τ log mean_{j wrong} e^(s_j/τ) ] + sg[β max(KL_g − δ, 0)] · KL_g
    s_i   likelihood: 1/|o_i| Σ_t log π(o_it) · ratio: 1/|o_i| Σ_t ρ_it,   ρ = π / π_old
    v_i   1/(number right), or ∝ e^(−|o_i| / (λ L)) over the right ones
    KL_g  mean over the group's tokens of −log ρ (`kl`) or of ρ − 1 − log ρ (`low_variance`)

    DisCO; DRPO, Decoupled Reward Policy Optimization, is the same with `length_temperature` λ; released code,
    Optimization-AI/DRPO, verl/verl/trainer/ppo/core_algos.py, which has both. `wrong: mean` is DisCO-b: the mean of the
    wrong scores in place of the log-mean-exp, which is its limit τ → ∞. There is no clip; on-policy the hinge is 0. The
    advantage marks right and wrong (step `right_or_wrong`); the reduction is `group_sum`, a mean over all groups.

    Departures: the code takes the KL over a micro-batch of all devices, here it is each group's, so that neither
    micro-batches nor ranks change the result. The reported number of the log term is its value; the code's is a surrogate
    of equal gradient. λ and L (the configured longest completion) in one: the code's weight is e^((1 − |o|/L)/λ), of equal
    ratios. An empty completion is neither right nor wrong.
    """

    score: Literal["likelihood", "ratio"] = "likelihood"
    tau: PositiveFloat | None = None
    """τ; null: 10 for `likelihood`, 1 for `ratio`."""
    wrong: Literal["log_mean_exp", "mean"] = "log_mean_exp"
    length_temperature: PositiveFloat | None = None
    """λ of DRPO, 0.1 in its scripts; null: DisCO, every right answer counts the same."""
    beta: NonNegativeFloat = 1000.0
    """β; 0: no trust region, and groups without both kinds are not trained on."""
    delta: NonNegativeFloat = 1e-4
    """δ."""
    divergence: Literal["kl", "low_variance"] = "kl"

    reductions: ClassVar[tuple[str, ...]] = ("group_sum",)
    last_steps: ClassVar[tuple[str, ...]] = ("right_or_wrong",)

    def __post_init__(self) -> None:
        if self.wrong == "mean":
            refuse_idle(self, "tau", beside="wrong: mean", unless="wrong: log_mean_exp")

    @property
    def needs(self) -> Needs:
        return Needs(old_logprobs=True, group_stats=True, zero_signal_groups=self.beta > 0)

    def group_stats(
        self, logprobs: Float[Tensor, "B T"], batch: LossBatch
    ) -> Mapping[str, Float[Tensor, " B"]]:
        """∂L_g/∂s of each row's rollout, the contrast's value, and the weight and value of its group's hinge."""
        assert batch.old_logprobs is not None
        tokens = batch.mask.sum(1).to(logprobs.dtype)
        share = tokens / batch.rollout_tokens.clamp(min=1)  # a rollout's rows add up to 1
        scores = per_rollout((self._scores(logprobs, batch) * batch.mask).sum(1), batch)
        scores = scores / batch.rollout_tokens.clamp(min=1)
        side = row_advantage(batch)
        right, wrong = (side > 0).to(share) * share, (side < 0).to(share) * share
        right = right * self._lengths(batch)
        right = right / _positive(per_group(right, batch))
        push, level = self._wrong(scores, wrong, batch)
        mixed = (per_group(right, batch) > 0) & (per_group(wrong, batch) > 0)
        contrast = level - per_group(right * scores, batch)
        group_tokens = batch.group_tokens.clamp(min=1)
        moved = per_group((self._divergence(logprobs, batch) * batch.mask).sum(1), batch)
        excess = self.beta * (moved / group_tokens - self.delta).clamp(min=0)
        return {
            "push": torch.where(mixed & (share > 0), (push - right) / _positive(share), 0.0),
            "contrast": torch.where(mixed, contrast, 0.0),
            "excess": excess,
        }

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        assert batch.old_logprobs is not None
        frozen = logprobs.detach()
        stats = self.group_stats(frozen, batch) if batch.stats is None else batch.stats
        scores = self._scores(logprobs, batch)
        weight = stats["push"] / batch.rollout_tokens.clamp(min=1)
        group_tokens = batch.group_tokens.clamp(min=1)
        value = stats["contrast"] / group_tokens
        hinge = stats["excess"] / group_tokens
        values = weight[:, None] * (scores - scores.detach()) + value[:, None]
        values = values + hinge[:, None] * self._divergence(logprobs, batch)
        outside = (stats["excess"] > 0).to(values.dtype)[:, None].expand_as(values)
        return Terms(values=values, observed={"disco/outside_trust_region": outside.detach()})

    def _scores(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Float[Tensor, "B T"]:
        assert batch.old_logprobs is not None
        return (
            logprobs
            if self.score == "likelihood"
            else log_ratio(logprobs, batch.old_logprobs).exp()
        )

    def _divergence(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Float[Tensor, "B T"]:
        assert batch.old_logprobs is not None
        moved = log_ratio(logprobs, batch.old_logprobs)
        return -moved if self.divergence == "kl" else moved.exp() - 1 - moved

    def _lengths(self, batch: LossBatch) -> Float[Tensor, " B"]:
        """v of a right answer before it is normalised, at most 1 within its group."""
        lengths = batch.rollout_tokens.to(batch.advantages.dtype)
        if self.length_temperature is None:
            return torch.ones_like(lengths)
        longest = batch.denominators.max_tokens
        if longest <= 0:
            raise ObjectiveError(
                "disco.length_temperature: needs the configured longest completion"
            )
        shortest = -_group_max(-lengths, batch)
        return ((shortest - lengths) / (longest * self.length_temperature)).exp()

    def _wrong(
        self, scores: Float[Tensor, " B"], wrong: Float[Tensor, " B"], batch: LossBatch
    ) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
        """The wrong answers' part of L_g: its derivative by s, times the row's share of its rollout, and its value."""
        count = _positive(per_group(wrong, batch))
        if self.wrong == "mean":
            return wrong / count, per_group(wrong * scores, batch) / count
        tau = self.tau if self.tau is not None else TAU[self.score]
        top = _group_max(torch.where(wrong > 0, scores, -torch.inf), batch)
        top = torch.where(top.isfinite(), top, 0.0)
        height = wrong * ((scores - top) / tau).clamp(max=0).exp()
        total = per_group(height, batch)
        value = top + tau * (_positive(total) / count).log()
        return height / _positive(total), value


def _positive(values: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """`values` with 1 where they are 0, for a division."""
    return torch.where(values > 0, values, 1.0)


def _group_max(values: Float[Tensor, " B"], batch: LossBatch) -> Float[Tensor, " B"]:
    """For each row, the maximum over its group."""
    groups = int(batch.group.max()) + 1 if len(batch.group) else 1
    start = values.new_full((groups,), -torch.inf)
    return start.scatter_reduce(0, batch.group, values, "amax")[batch.group]


OBJECTIVES = {"disco": Disco}
