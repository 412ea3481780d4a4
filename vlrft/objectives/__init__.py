"""What an objective is: tensors in, loss terms out.

An objective is a frozen dataclass whose fields are its hyper-parameters. Its call is pure and returns a *term* for each
token; `reduce` divides by denominators of the whole optimiser step, so that splitting a step over micro-batches or
ranks changes nothing. Axes: B rows, T tokens of the longest row (prompt excluded), P groups of the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vlrft.objectives.loss_batch import (
    Denominators,
    LossBatch,
    make_loss_batch,
    per_group,
    per_rollout,
    row_advantage,
)
from vlrft.objectives.reduction import Reduction, reduce, token_weights
from vlrft.schema import VlrftError

__all__ = [
    "MAX_LOG_RATIO",
    "Advising",
    "Denominators",
    "GroupCoupled",
    "LossBatch",
    "Needs",
    "NonFiniteError",
    "Objective",
    "ObjectiveError",
    "Reduction",
    "Terms",
    "guard",
    "log_ratio",
    "make_loss_batch",
    "per_group",
    "per_rollout",
    "reduce",
    "row_advantage",
    "token_weights",
]

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
