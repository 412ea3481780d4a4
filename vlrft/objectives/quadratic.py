"""Simple Policy Optimization: a quadratic penalty in the place of the clip."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.config import strict
from vlrft.objectives.loss_batch import LossBatch
from vlrft.objectives.numerics import log_ratio
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.ranges import PositiveFloat


@strict
class Quadratic:
    """The surrogate less a parabola whose top is where PPO would clip.

    ℓ_it = −[ ρ_it A_it − |A_it| / (2ε) · (ρ_it − 1)² ],   ρ = π / π_old

    Simple Policy Optimization, arXiv 2401.16025. ∂ℓ/∂ρ is 0 at ρ = 1 + ε · sign A alone: a token that has moved further
    is pulled back, where the clip only lets go of it. On the policy that sampled, the gradient is GRPO's.

    Departures: the paper is about control tasks, with an advantage from a critic; here any estimator gives it. The
    exponent of ρ is clamped to ±20.
    """

    epsilon: PositiveFloat = 0.2
    """ε."""

    @property
    def needs(self) -> Needs:
        return Needs(old_logprobs=True)

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        assert batch.old_logprobs is not None
        ratio, advantages = log_ratio(logprobs, batch.old_logprobs).exp(), batch.advantages
        penalty = advantages.abs() / (2 * self.epsilon) * (ratio - 1) ** 2
        with torch.no_grad():
            beyond = ((ratio - 1) * advantages.sign() > self.epsilon).to(ratio.dtype)
        return Terms(values=penalty - ratio * advantages, observed={"ratio/pulled_back": beyond})


OBJECTIVES = {"quadratic": Quadratic}
