"""The input of an objective: the rows of an optimiser step as tensors, and sums of them over a group or a rollout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Denominators:
    """Counts over the whole optimiser step and all ranks, skipped zero-signal groups included."""

    tokens: int  # action tokens
    rollouts: int
    groups: int
    valid_groups: int  # those whose rewards differ, or which an advantage teaches
    max_tokens: int  # the configured longest completion, for `constant`
    valid: tuple[bool, ...]  # [P] in the order in which the groups were collected


@dataclass(frozen=True, kw_only=True)
class LossBatch:
    """The rows of a micro-batch, as an objective reads them. Entry [b, t] of every tensor belongs to token t of row
    b."""

    mask: Bool[Tensor, "B T"]  # action tokens
    advantages: Float[Tensor, "B T"]  # detached
    group: Int[Tensor, " B"]
    rollout: Int[Tensor, " B"]
    group_tokens: Int[Tensor, " B"]  # action tokens of the row's whole group
    rollout_tokens: Int[Tensor, " B"]  # action tokens of the row's whole rollout
    group_rollouts: Int[Tensor, " B"]  # rollouts of the row's group, empty ones included
    denominators: Denominators
    sampled_logprobs: Float[Tensor, "B T"] | None = None
    old_logprobs: Float[Tensor, "B T"] | None = None
    ref_logprobs: Float[Tensor, "B T"] | None = None
    entropy: Float[Tensor, "B T"] | None = None  # of each token's distribution, differentiable
    replayed: Bool[Tensor, " B"] | None = None  # rollouts of an earlier policy
    stats: Mapping[str, Float[Tensor, " B"]] | None = None  # the result of `group_stats`

    def rows(self, index: Int[Tensor, " b"], length: int) -> LossBatch:
        """The rows at `index`, cut to `length` tokens; the denominators stay those of the whole step."""
        return self._map(lambda t: t[index][:, :length] if t.dim() == 2 else t[index])

    def to(self, device: torch.device, dtype: torch.dtype) -> LossBatch:
        """A copy on the device, numbers in the dtype; indices and masks keep theirs."""
        return self._map(lambda t: t.to(device, dtype if t.is_floating_point() else t.dtype))

    def _map(self, change: Callable[[Tensor], Tensor]) -> LossBatch:
        changed: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Tensor):
                changed[f.name] = change(value)
        if self.stats is not None:
            changed["stats"] = {name: change(value) for name, value in self.stats.items()}
        return replace(self, **changed)


def make_loss_batch(
    *,
    mask: Bool[Tensor, "B T"],
    advantages: Float[Tensor, "B T"],
    group: Int[Tensor, " B"],
    rollout: Int[Tensor, " B"],
    valid: tuple[bool, ...],
    max_tokens: int,
    sampled_logprobs: Float[Tensor, "B T"] | None = None,
    old_logprobs: Float[Tensor, "B T"] | None = None,
    ref_logprobs: Float[Tensor, "B T"] | None = None,
    entropy: Float[Tensor, "B T"] | None = None,
    replayed: Bool[Tensor, " B"] | None = None,
) -> LossBatch:
    """All rows of an optimiser step, with the denominators counted from them.

    `group` and `rollout` are dense indices, `valid` says which of the P groups have rewards that differ. A group with an
    advantage counts as valid, too: a baseline that is not the group's own mean may teach groups of equal rewards.
    """
    taught = set(group[((advantages != 0) & mask).any(1)].tolist())
    valid = tuple(differs or k in taught for k, differs in enumerate(valid))
    tokens = mask.sum(1)
    zeros = torch.zeros(len(group) + 1, dtype=torch.long, device=mask.device)
    pairs = torch.unique(torch.stack([group, rollout]), dim=1)
    return LossBatch(
        mask=mask,
        advantages=advantages,
        group=group,
        rollout=rollout,
        group_tokens=zeros.index_add(0, group, tokens)[group],
        rollout_tokens=zeros.index_add(0, rollout, tokens)[rollout],
        group_rollouts=zeros.index_add(0, pairs[0], torch.ones_like(pairs[0]))[group],
        denominators=Denominators(
            tokens=int(tokens.sum()),
            rollouts=int(rollout.max()) + 1 if len(rollout) else 0,
            groups=len(valid),
            valid_groups=sum(valid),
            max_tokens=max_tokens,
            valid=valid,
        ),
        sampled_logprobs=sampled_logprobs,
        old_logprobs=old_logprobs,
        ref_logprobs=ref_logprobs,
        entropy=entropy,
        replayed=replayed,
    )


def per_group(rows: Num[Tensor, " B"], batch: LossBatch) -> Num[Tensor, " B"]:
    """For each row, the sum of `rows` over its group."""
    sums = rows.new_zeros(int(batch.group.max()) + 1 if len(batch.group) else 1)
    return sums.index_add(0, batch.group, rows)[batch.group]


def per_rollout(rows: Float[Tensor, " B"], batch: LossBatch) -> Float[Tensor, " B"]:
    """For each row, the sum of `rows` over its rollout."""
    sums = rows.new_zeros(int(batch.rollout.max()) + 1 if len(batch.rollout) else 1)
    return sums.index_add(0, batch.rollout, rows)[batch.rollout]


def row_advantage(batch: LossBatch) -> Float[Tensor, " B"]:
    """The advantage of each row, the mean over its action tokens; 0 for a row without any."""
    tokens = batch.mask.sum(1).clamp(min=1)
    return (batch.advantages * batch.mask).sum(1) / tokens
