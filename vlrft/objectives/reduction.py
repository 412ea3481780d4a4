"""Reductions: the weights that turn an objective's terms into one loss. Denominators are those of the whole step."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.objectives.loss_batch import LossBatch
from vlrft.objectives.objective import Terms

Reduction = Literal["sequence", "token", "group", "constant", "group_sum", "pair"]


def token_weights(batch: LossBatch, reduction: Reduction) -> Float[Tensor, "B T"]:
    """The weight of each action token's term in the loss; 0 elsewhere.

    sequence  1 / (rollouts · tokens of the rollout)      token     1 / tokens
    group     1 / (groups · tokens of the group)          constant  1 / (rollouts · max_tokens)
    group_sum 1 / groups                                  pair      1 / valid groups
    """
    counts = batch.denominators
    wide = batch.advantages.dtype
    if reduction == "token":
        scale = torch.full_like(batch.group, max(counts.tokens, 1), dtype=wide)
    elif reduction == "sequence":
        scale = counts.rollouts * batch.rollout_tokens.clamp(min=1).to(wide)
    elif reduction == "group":
        scale = counts.groups * batch.group_tokens.clamp(min=1).to(wide)
    elif reduction == "constant":
        scale = torch.full_like(batch.group, counts.rollouts * counts.max_tokens, dtype=wide)
    else:
        groups = counts.groups if reduction == "group_sum" else counts.valid_groups
        scale = torch.full_like(batch.group, max(groups, 1), dtype=wide)
    return batch.mask.to(wide) / scale[:, None]


def reduce(terms: Terms, batch: LossBatch, reduction: Reduction) -> Float[Tensor, ""]:
    """The share of this micro-batch in the step's loss; the shares of all micro-batches and ranks add up to it."""
    return (terms.values * token_weights(batch, reduction).to(terms.values.dtype)).sum()
