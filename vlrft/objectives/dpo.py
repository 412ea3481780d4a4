"""DPO on the best and the worst rollout of each group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from vlrft.config import strict
from vlrft.objectives.loss_batch import LossBatch, per_group, row_advantage
from vlrft.objectives.objective import Needs, Terms
from vlrft.schema.ranges import PositiveFloat


@strict
class Dpo:
    """A pair a group: A = +1 marks the rollout with the best reward, −1 the worst; ties have no pair.

    L = mean over pairs of −log σ( β [ (s_w − s_w,ref) − (s_l − s_l,ref) ] ),   s = Σ_t log π(o_t)

    DPO, arXiv 2305.18290, Eq. 7; sums over the action tokens, all turns. The reduction is `pair`. The margin is taken
    from whole groups, so that the two may be in different micro-batches.
    """

    beta: PositiveFloat = 0.1

    reductions: ClassVar[tuple[str, ...]] = ("pair",)
    last_steps: ClassVar[tuple[str, ...]] = ("best_against_worst",)

    @property
    def needs(self) -> Needs:
        return Needs(ref_logprobs=True, group_stats=True)

    def group_stats(
        self, logprobs: Float[Tensor, "B T"], batch: LossBatch
    ) -> Mapping[str, Float[Tensor, " B"]]:
        """β · Σ_i A_i (s_i − s_i,ref) of each row's group, and its tokens that belong to a pair."""
        assert batch.ref_logprobs is not None
        side = row_advantage(batch)
        moved = ((logprobs - batch.ref_logprobs) * batch.mask).sum(1)
        tokens = batch.mask.sum(1) * (side != 0)
        return {
            "margin": self.beta * per_group(side * moved, batch),
            "tokens": per_group(tokens.to(moved.dtype), batch),
        }

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms:
        frozen = logprobs.detach()
        stats = self.group_stats(frozen, batch) if batch.stats is None else batch.stats
        margin, side = stats["margin"], row_advantage(batch)
        weight = -self.beta * side * (-margin).sigmoid()
        value = -logsigmoid(margin) * (side != 0) / stats["tokens"].clamp(min=1)
        values = weight[:, None] * (logprobs - frozen) + value[:, None]
        correct = (margin > 0).to(margin.dtype)[:, None].expand_as(logprobs)
        return Terms(values=values, observed={"dpo/correct": correct})


OBJECTIVES = {"dpo": Dpo}
