"""The protocol of an objective: tensors in, a loss term for each action token out.

An objective is a frozen dataclass whose fields are its hyper-parameters. Its call is pure and returns *terms*, never a
mean: `reduce` divides by denominators of the whole optimiser step, so that splitting a step over micro-batches or
ranks changes nothing. Axes: B rows, T tokens of the longest row (prompt excluded), P groups of the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from vlrft.objectives.loss_batch import LossBatch


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The inputs that the loop must compute before it calls the objective; the others are not computed."""

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
        """The union of both; `replay_old` is taken from the left."""
        flags = [f.name for f in fields(self) if f.name != "replay_old"]
        return replace(self, **{n: getattr(self, n) or getattr(other, n) for n in flags})


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The result of an objective: a loss for each token, and what is reported of it.

    A term of a whole row is written at each of its tokens: every reduction then weighs it by the row's tokens.
    `observed` are detached numbers of each token, `scalars` of the whole step.
    """

    values: Float[Tensor, "B T"]
    observed: Mapping[str, Float[Tensor, "B T"]] = field(default_factory=dict[str, Tensor])
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])


@runtime_checkable
class Objective(Protocol):
    """A loss. The docstring of each implementation gives its equation, its paper and its assumptions.

    An objective that compares rollouts may have `min_group`, the smallest group that it works with; default 1.
    """

    @property
    def needs(self) -> Needs: ...

    def __call__(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> Terms: ...


@runtime_checkable
class Advising(Protocol):
    """An objective that checks the settings of a run before it begins."""

    def advice(self, *, updates_per_batch: int, full_support: bool) -> list[str]:
        """Warnings for the log, one line each. `full_support`: whether every token can be sampled."""
        ...


@runtime_checkable
class GroupCoupled(Protocol):
    """An objective whose terms depend on the group's other rollouts, so that a group cannot simply be split."""

    def group_stats(
        self, logprobs: Float[Tensor, "B T"], batch: LossBatch
    ) -> Mapping[str, Float[Tensor, " B"]]:
        """Statistics of each row's group, from detached log-probs of whole groups.

        Where groups are split over micro-batches, the loop calls this once a step, after a pass without gradients,
        and puts the result into `batch.stats`; elsewhere the objective calls it itself.
        """
        ...
