"""A method: the named bundle of what turns groups into a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from jaxtyping import Float
from pydantic import Field, PositiveInt
from torch import Tensor

from vlrft.advantages import Choice, Estimator, find_estimator
from vlrft.config import UnitInterval, strict
from vlrft.objectives import LossBatch, Needs, Objective, Reduction, Terms, guard, reduce
from vlrft.objectives.regularizer import Regularizer
from vlrft.selection.group_filters import Keep, KeepAll
from vlrft.selection.replay import Replay
from vlrft.selection.rollout_filters import Selector
from vlrft.tracing.phases import phase

COMPUTES = {
    "old_logprobs": "those under the policy that sampled (free with one update a batch)",
    "ref_logprobs": "those under the reference policy",
    "entropy": "the entropy's gradient",
    "group_stats": "statistics of whole groups (a pass without gradients when a group is split)",
    "zero_signal_groups": "groups whose rewards do not differ, too",
}


@strict
class Reference:
    """The policy that a KL term or GVPO's `initial` is measured from; with LoRA `frozen` is the model without adapters."""

    update: Literal["never", "ema", "reset"] = "never"
    """ema: after each step it goes the share 1 − decay of the way to the policy; reset: every so many steps it becomes
    the policy."""
    decay: UnitInterval = 0.99
    every: PositiveInt = 100


@strict
class Schedule:
    """A number that moves over a stage: `{from: 0.2, to: 0.0, shape: cosine}`."""

    start: Annotated[float, Field(alias="from")]
    to: float
    shape: Literal["linear", "cosine"] = "linear"
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """It arrives after this share of the stage's steps and stays."""

    def at(self, done: float) -> float:
        """The value when the share `done` of the stage's steps is done."""
        x = min(done / self.share, 1.0)
        if self.shape == "cosine":
            x = 0.5 * (1 - math.cos(math.pi * x))
        return self.start + (self.to - self.start) * x


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """Advantage estimator, objective, reduction, keep rule, regularisers; what `vlrft list algorithms` prints."""

    name: str
    doc: str
    paper: str
    objective: Objective
    advantage: Choice = "centred"
    reduction: Reduction = "sequence"
    keep: Keep = field(default_factory=KeepAll)
    select: Selector | None = None
    """Which rollouts of a kept group are trained on; None: all."""
    replay: Replay | None = None
    """Rollouts of earlier policies beside the fresh ones; None: none."""
    regularize: Regularizer = field(default_factory=Regularizer)
    reference: Reference = field(default_factory=Reference)
    answers: Literal["sampled", "gold"] = "sampled"
    notes: str = ""
    schedules: Mapping[str, Schedule] = field(default_factory=dict[str, Schedule])
    """`part.key` -> how it moves; made by `override` from a number that was given as a mapping."""

    @property
    def estimator(self) -> Estimator:
        """What `advantage` names, or puts together."""
        return find_estimator(self.advantage)

    @property
    def needs(self) -> Needs:
        """What the loop must compute, over the whole of every schedule."""
        needs = Needs()
        for done in (0.0, 1.0) if self.schedules else (0.0,):
            now = self.at(done)
            needs = now.objective.needs | now.regularize.needs | needs
        return needs

    def at(self, done: float) -> Algorithm:
        """The bundle when the share `done` of the stage's steps is done; schedules have become numbers."""
        parts: dict[str, Any] = {}
        for path, schedule in self.schedules.items():
            part, key = path.split(".")
            owner = parts.get(part, getattr(self, part))
            parts[part] = replace(owner, **{key: schedule.at(done)})
        return replace(self, **parts)

    @phase("loss")
    def loss(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> tuple[Tensor, Terms]:
        """The share of the step's loss that the given rows contribute, and the terms behind it."""
        own = guard(logprobs, batch.mask, "log-probs")
        if batch.entropy is not None:
            batch = replace(batch, entropy=guard(batch.entropy, batch.mask, "entropy"))
        terms = self.regularize(self.objective(own, batch), own, batch)
        return reduce(terms, batch, self.reduction), terms

    def describe(self) -> dict[str, str]:
        """What a person wants to know before choosing the method."""
        needs = [words for name, words in COMPUTES.items() if getattr(self.needs, name)]
        if self.estimator.greedy:
            needs.append("a greedy answer a prompt")
        found = {
            "doc": self.doc,
            "paper": self.paper,
            "advantage": f"{self.estimator.name}: {self.estimator.equation or self.estimator.doc}",
            "objective": repr(self.objective),
            "reduction": self.reduction,
            "keep": repr(self.keep),
            "select": repr(self.select) if self.select is not None else "",
            "replay": repr(self.replay) if self.replay is not None else "",
            "regularize": repr(self.regularize) if self.regularize != Regularizer() else "",
            "reference": repr(self.reference) if self.needs.ref_logprobs else "",
            "answers": self.answers,
            "computes": "; ".join(["log-probs of the action tokens", *needs]),
            "notes": self.notes,
        }
        return {key: value for key, value in found.items() if value}
