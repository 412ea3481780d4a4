"""TRPA: every pair of a group whose rewards differ is a preference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from vlrft.config import strict
from vlrft.objectives.kl import kl
from vlrft.objectives.loss_batch import LossBatch, per_rollout, row_advantage
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.ranges import FiniteFloat, NonNegativeFloat, PositiveFloat

SAME_LEVEL = 1e-6  # rewards that differ by less are of one level


@strict
class LevelPairs:
    """All pairs of a group's rollouts of different levels, measured from the reference; A is the reward itself.

    L_g = mean over pairs of −log σ( β a (ℓ_hi − ℓ_lo) ) + κ · mean over the group's tokens of k3(π ‖ π_old)
    ℓ_i = 1/|o_i| Σ_t [ log π(o_it) − log π_ref(o_it) ],   a = 2.5 where the better one is of the best level, else 1

    Trust Region Preference Approximation; released code, XueruiSu/Trust-Region-Preference-Approximation,
    verl/trainer/ppo/core_algos.py (pairs), workers/actor/dp_actor.py (trust region), main_TRPA.sh (defaults). A level is a
    reward: the task's scores set their order, and rewards from `best` on are the first level. The advantage is `mute_flat`
    (the reward, 0 in a group of equal rewards), the reduction `pair`.

    Departures: the code's mean is over all pairs of a micro-batch; here over the pairs of a group, then over groups, so
    that micro-batches and ranks change nothing. A micro-batch without any pair learns −log σ(±ℓ) on right and wrong
    answers there, nothing here, and the trust region acts on groups with pairs only. The variant κ √(KL + ¼) is left out.
    An empty completion is in no pair.
    """

    beta: PositiveFloat = 0.1
    anisotropy: PositiveFloat = 2.5
    """a."""
    best: FiniteFloat = 1.0
    """The least reward of the best level."""
    trust_region: NonNegativeFloat = 0.001
    """κ."""

    reductions: ClassVar[tuple[str, ...]] = ("pair",)
    last_steps: ClassVar[tuple[str, ...]] = ("mute_flat",)

    @property
    def needs(self) -> Needs:
        return Needs(old_logprobs=True, ref_logprobs=True, group_stats=True)

    def group_stats(
        self, logprobs: Float[Tensor, "B T"], batch: LossBatch
    ) -> Mapping[str, Float[Tensor, " B"]]:
        """∂L_g/∂ℓ of each row's rollout, L_g without the trust region, and whether the group has pairs."""
        assert batch.ref_logprobs is not None
        lengths = batch.rollout_tokens.clamp(min=1)
        share = batch.mask.sum(1).to(logprobs.dtype) / lengths  # a rollout's rows add up to 1
        moved = per_rollout(((logprobs - batch.ref_logprobs) * batch.mask).sum(1), batch) / lengths
        level = row_advantage(batch)
        push, value, pairs = (torch.zeros_like(moved) for _ in range(3))
        for number in torch.unique(batch.group):
            rows = (batch.group == number).nonzero()[:, 0]
            better = level[rows][:, None] - level[rows][None] > SAME_LEVEL
            weight = share[rows][:, None] * share[rows][None] * better
            count = weight.sum()
            if count == 0:
                continue
            at_best = (level[rows] > self.best - SAME_LEVEL).to(moved.dtype)
            scale = self.beta * (1 + (self.anisotropy - 1) * at_best)[:, None]
            margin = scale * (moved[rows][:, None] - moved[rows][None])
            pull = weight * scale * (-margin).sigmoid() / count
            push[rows] = (pull.sum(0) - pull.sum(1)) / share[rows].clamp(min=SAME_LEVEL)
            value[rows] = -(weight * logsigmoid(margin)).sum() / count
            pairs[rows] = 1.0
        return {"push": push, "value": value, "pairs": pairs}

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        assert batch.old_logprobs is not None
        frozen = logprobs.detach()
        stats = self.group_stats(frozen, batch) if batch.stats is None else batch.stats
        weight = stats["push"] / batch.rollout_tokens.clamp(min=1)
        value = stats["value"] / batch.group_tokens.clamp(min=1)
        values = weight[:, None] * (logprobs - frozen) + value[:, None]
        if self.trust_region > 0:
            strength = self.trust_region * stats["pairs"] / batch.group_tokens.clamp(min=1)
            values = values + strength[:, None] * kl(logprobs, batch.old_logprobs, "k3")
        paired = stats["pairs"][:, None].expand_as(logprobs)
        return Terms(values=values, observed={"trpa/paired": paired})


OBJECTIVES = {"level_pairs": LevelPairs}
