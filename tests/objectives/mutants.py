"""Objectives that are wrong in one place each, which the references must reject."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from vlrft.config import strict
from vlrft.objectives import LossBatch, Terms, log_ratio
from vlrft.objectives.disco import Disco
from vlrft.objectives.dynamic_clip import DynamicClip
from vlrft.objectives.level_pairs import LevelPairs
from vlrft.objectives.off_policy import OffPolicy
from vlrft.objectives.quadratic import Quadratic


@strict
class PenaltyWithoutAdvantage(Quadratic):
    """The parabola without |A|."""

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        assert batch.old_logprobs is not None
        ratio = log_ratio(logprobs, batch.old_logprobs).exp()
        return Terms(values=(ratio - 1) ** 2 / (2 * self.epsilon) - ratio * batch.advantages)


@strict
class BoundsOfThePresentPolicy(DynamicClip):
    """Bounds from the probability now in place of that when it was sampled."""

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        low, high = self.bounds(logprobs.detach())
        assert batch.old_logprobs is not None
        ratio, a = log_ratio(logprobs, batch.old_logprobs).exp(), batch.advantages
        return Terms(values=-(ratio * a).minimum(ratio.clamp(low, high) * a))


@strict
class RatioWithGradient(OffPolicy):
    """ρ A in place of A log π: the ratio is differentiated."""

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        assert batch.old_logprobs is not None
        ratio = log_ratio(logprobs, batch.old_logprobs).exp()
        inside = self._in_range(ratio.detach(), batch.advantages)
        return Terms(values=-ratio * batch.advantages * inside)


@strict
class HingeWithoutThreshold(Disco):
    """The trust region acts from a KL of 0 on, in place of δ."""

    def group_stats(
        self, logprobs: Float[Tensor, "B T"], batch: LossBatch
    ) -> dict[str, Float[Tensor, " B"]]:
        return dict(replace(Disco(tau=self.tau), delta=0.0).group_stats(logprobs, batch))


@strict
class LongAnswersPreferred(Disco):
    """e^(+|o|/λL): the sign of the length term."""

    def _lengths(self, batch: LossBatch) -> Float[Tensor, " B"]:
        return 1 / super()._lengths(batch)


@strict
class EveryPairAlike(LevelPairs):
    """Without the anisotropy of the best level."""

    def group_stats(
        self, logprobs: Float[Tensor, "B T"], batch: LossBatch
    ) -> dict[str, Float[Tensor, " B"]]:
        return dict(LevelPairs(beta=self.beta, anisotropy=1.0).group_stats(logprobs, batch))


MUTANTS = {
    "simple_po": "PenaltyWithoutAdvantage",
    "dcpo_clip": "BoundsOfThePresentPolicy",
    "dcpo": "BoundsOfThePresentPolicy",
    "rec": "RatioWithGradient",
    "disco": "HingeWithoutThreshold",
    "drpo": "LongAnswersPreferred",
    "trpa": "EveryPairAlike",
}
"""Algorithm -> the wrong version of its objective."""
