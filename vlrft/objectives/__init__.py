"""What an objective is: tensors in, loss terms out; and the one place where terms become a number.

An objective is a frozen dataclass whose fields are its hyper-parameters. Its call is pure and returns a *term* for each
token; `reduce` divides by denominators of the whole optimiser step, so that splitting a step over micro-batches or
ranks changes nothing. Axes: B rows, T tokens of the longest row (prompt excluded), P groups of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vlrft.schema import VlrftError

Reduction = Literal["sequence", "token", "group", "constant", "group_sum", "pair"]

MAX_LOG_RATIO = 20.0  # exp(20) = 5e8 still squares within float32


class NonFiniteError(VlrftError, FloatingPointError):
    """A log-prob at an action position, a loss or a gradient that is no finite number."""

    def __init__(
        self, message: str, rows: tuple[int, ...] = (), samples: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.rows = rows
        self.samples = samples


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What the loop must compute before the objective can be called; what is not needed is not computed."""

    old_logprobs: bool = False
    ref_logprobs: bool = False
    zero_signal_groups: bool = False
    group_stats: bool = False
    """Whole groups: the objective has a method `group_stats` (see GroupCoupled)."""
    entropy: bool = False
    """The entropy of each token's distribution, with its gradient."""
    replay_old: Literal["stored", "recomputed"] = "stored"
    """Old log-probs of replayed rollouts: those they were sampled with, or those of the policy that began the step."""

    def __or__(self, other: Needs) -> Needs:
        """What either needs; `replay_old` stays this one's."""
        flags = [f.name for f in fields(self) if f.name != "replay_old"]
        return replace(self, **{n: getattr(self, n) or getattr(other, n) for n in flags})


@dataclass(frozen=True, kw_only=True)
class Denominators:
    """Counts over the whole optimiser step and all ranks, skipped zero-signal groups included."""

    tokens: int  # action tokens
    rollouts: int
    groups: int
    valid_groups: int  # those whose rewards differ
    max_tokens: int  # the configured longest completion, for `constant`
    valid: tuple[bool, ...]  # [P] in the order in which the groups were collected


@dataclass(frozen=True, kw_only=True)
class LossBatch:
    """The rows of a micro-batch as an objective sees them. Entry [b, t] of every tensor speaks of row b's token t."""

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
    stats: Mapping[str, Float[Tensor, " B"]] | None = None  # what `group_stats` gave

    def rows(self, index: Int[Tensor, " b"], length: int) -> LossBatch:
        """The given rows, cut to `length` tokens; denominators stay those of the whole step."""
        return self._map(lambda t: t[index][:, :length] if t.dim() == 2 else t[index])

    def to(self, device: torch.device, dtype: torch.dtype) -> LossBatch:
        """On the device, numbers in the dtype; indices and masks stay what they are."""
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

    `group` and `rollout` are dense indices, `valid` says which of the P groups have rewards that differ.
    """
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


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What an objective returns: a loss a token, and detached per-token tensors worth reporting.

    A term of a whole row stands at each of its tokens: every reduction then weighs it by the row's tokens.
    """

    values: Float[Tensor, "B T"]
    observed: Mapping[str, Float[Tensor, "B T"]] = field(default_factory=dict[str, Tensor])
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])


class Objective(Protocol):
    """Equation, paper and assumptions stand in the class's docstring."""

    @property
    def needs(self) -> Needs: ...

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms: ...


@runtime_checkable
class Advising(Protocol):
    """An objective that has something to say about the settings of a run."""

    def advice(self, *, updates_per_batch: int, full_support: bool) -> list[str]:
        """Lines for the log; `full_support`: whether every token can be sampled."""
        ...


class GroupCoupled(Protocol):
    """An objective whose terms depend on other rollouts of the group, so that a group cannot simply be split."""

    def group_stats(
        self, logprobs: Float[Tensor, "B T"], batch: LossBatch
    ) -> Mapping[str, Float[Tensor, " B"]]:
        """What a row must know of its group, from detached log-probs of whole groups. Where groups are split over
        micro-batches the loop asks once a step, after a pass without gradients, and the answer stands in
        `batch.stats`; elsewhere the objective asks itself."""
        ...


class ObjectiveError(VlrftError, ValueError):
    """A step that an objective is not defined for; names the objective."""


def per_group(rows: Float[Tensor, " B"], batch: LossBatch) -> Float[Tensor, " B"]:
    """Each row's group sum of numbers a row."""
    sums = rows.new_zeros(int(batch.group.max()) + 1 if len(batch.group) else 1)
    return sums.index_add(0, batch.group, rows)[batch.group]


def per_rollout(rows: Float[Tensor, " B"], batch: LossBatch) -> Float[Tensor, " B"]:
    """Each row's rollout sum of numbers a row."""
    sums = rows.new_zeros(int(batch.rollout.max()) + 1 if len(batch.rollout) else 1)
    return sums.index_add(0, batch.rollout, rows)[batch.rollout]


def row_advantage(batch: LossBatch) -> Float[Tensor, " B"]:
    """The advantage of each row, the mean over its action tokens; 0 for a row without any."""
    tokens = batch.mask.sum(1).clamp(min=1)
    return (batch.advantages * batch.mask).sum(1) / tokens


def guard(
    values: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], what: str
) -> Float[Tensor, "B T"]:
    """`values` in float32 or wider with 0 where the mask is off, so that garbage there has no gradient.

    Raises NonFiniteError naming the rows whose action tokens hold NaN or infinity.
    """
    wide = values if values.dtype == torch.float64 else values.float()
    clean = wide.masked_fill(~mask, 0.0)
    finite = torch.isfinite(clean.detach()).all(1)
    if not bool(finite.all()):
        rows = tuple(int(i) for i in (~finite).nonzero()[:, 0])
        raise NonFiniteError(f"{what}: not finite at action tokens of rows {list(rows[:8])}", rows)
    return clean


def log_ratio(logprobs: Float[Tensor, "B T"], other: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """log(π / π_other), clamped so that its exponential and the square of that stay finite."""
    return (logprobs - other).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def token_weights(batch: LossBatch, reduction: Reduction) -> Float[Tensor, "B T"] | Tensor:
    """The factor of each action token's term in the loss (spec: one row a reduction)

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
    """This micro-batch's share of the step's loss; the shares add up."""
    return (terms.values * token_weights(batch, reduction).to(terms.values.dtype)).sum()
