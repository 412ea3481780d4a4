"""GPG, Group Policy Gradient: a policy gradient that makes up for the groups without signal."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.config import strict
from vlrft.config.idle import refuse_idle
from vlrft.objectives.loss_batch import Denominators, LossBatch
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.ranges import Positive


@strict
class Gpg:
    """GPG's loss term; with the `group` reduction the loss is the mean over *valid* groups.

    L = α · 1/P Σ_g [ 1/Σ_i|o_i| Σ_i Σ_t −log π(o_it) · A_i ],   A_i = (r_i − μ_g) / F_norm,   α = P / P_valid

    GPG, arXiv 2504.02546, Eq. 5–8 and Algorithm 1. P counts the groups of the step, P_valid those whose rewards
    differ, or which an advantage with a baseline of another kind teaches. No ratio, no clip, no reference model, no KL. F_norm is the algorithm's `advantage`: centred (1),
    standardised (group std) or batch_standardised (batch std).

    Departures: the authors' code counts groups that it later truncates away, so α is 3–20 % too small there; here it
    counts the groups that are trained on. The authors' VL trainers take α over the groups of one micro-step;
    `alpha_window` is that number of groups (order then matters, as it does there). A known port computes α from the
    share of non-zero *rewards*: that is another algorithm.
    """

    alpha: bool = True
    """Multiply by P / P_valid."""
    alpha_window: Positive | None = None
    """Take α over this many consecutive groups instead of the whole step."""

    def __post_init__(self) -> None:
        if not self.alpha:
            refuse_idle(self, "alpha_window", beside="alpha: false", unless="alpha: true")

    @property
    def needs(self) -> Needs:
        return Needs()

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        if not self.alpha:
            return Terms(values=-logprobs * batch.advantages, scalars={"alpha": 1.0})
        factors = alphas(batch.denominators, self.alpha_window)
        by_group = torch.tensor(factors, dtype=logprobs.dtype, device=logprobs.device)
        values = -logprobs * batch.advantages * by_group[batch.group][:, None]
        return Terms(values=values, scalars={"alpha": sum(factors) / max(len(factors), 1)})


def alphas(counts: Denominators, window: int | None) -> list[float]:
    """α of each group [P]: groups / valid groups, over the step or over windows; 0 where none is valid."""
    if window is None:
        alpha = counts.groups / counts.valid_groups if counts.valid_groups else 0.0
        return [alpha] * len(counts.valid)
    out: list[float] = []
    for start in range(0, len(counts.valid), window):
        part = counts.valid[start : start + window]
        out += [len(part) / sum(part) if any(part) else 0.0] * len(part)
    return out


OBJECTIVES = {"gpg": Gpg}
