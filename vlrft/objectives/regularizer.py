"""Terms that any algorithm may add to its loss: a KL penalty and an entropy bonus."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from vlrft.config import strict
from vlrft.objectives.kl import Estimator, kl
from vlrft.objectives.loss_batch import LossBatch
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.ranges import NonNegativeFloat


@strict
class Regularizer:
    """ℓ_it ← ℓ_it + β · kl(π, π_ref) − η · H(π_it),   reduced like the objective's own term.

    With β > 0 or η > 0 groups whose rewards are equal are trained on as well: the penalty acts on them.
    """

    kl: NonNegativeFloat = 0.0
    """β; 0: no reference model is loaded."""
    kl_estimator: Estimator = "k3"
    """kl, of each sampled token. It is differentiated: where the policy itself has sampled, the gradient of k2 is in
    expectation that of KL(π ‖ π_ref), of k3 that of KL(π_ref ‖ π), and of k1 it is 0, so that k1 adds noise and no
    pull."""
    entropy: NonNegativeFloat = 0.0
    """η: bonus a nat of entropy."""

    @property
    def needs(self) -> Needs:
        return Needs(
            ref_logprobs=self.kl > 0,
            entropy=self.entropy > 0,
            zero_signal_groups=self.kl > 0 or self.entropy > 0,
        )

    def __call__(self, terms: Terms, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        values, observed = terms.values, dict(terms.observed)
        if self.kl > 0:
            assert batch.ref_logprobs is not None
            penalty = kl(logprobs, batch.ref_logprobs, self.kl_estimator)
            values = values + self.kl * penalty
            observed["kl/reference"] = penalty.detach()
        if self.entropy > 0:
            assert batch.entropy is not None
            values = values - self.entropy * batch.entropy
        return replace(terms, values=values, observed=observed)
