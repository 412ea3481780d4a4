"""Plain policy gradient: −log π · A. With A = 1 it is maximum likelihood, which is how `sft` uses it."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from vlrft.config import strict
from vlrft.objectives.loss_batch import LossBatch
from vlrft.objectives.objective import Needs, Terms


@strict
class PolicyGradient:
    """REINFORCE on one batch of rollouts.

    ℓ_it = −log π(o_it) · A_it

    Williams (1992). Assumes that the rollouts come from the policy that is trained (no importance ratio).
    """

    @property
    def needs(self) -> Needs:
        return Needs()

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        return Terms(values=-logprobs * batch.advantages)


OBJECTIVES = {"policy_gradient": PolicyGradient}
