"""An algorithm: a name and the parts that turn groups into a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from vlrft.advantages import Choice, Estimator, find_estimator
from vlrft.config import strict
from vlrft.config.idle import refuse_idle
from vlrft.distributed.phases import phase
from vlrft.objectives import LossBatch, Needs, Objective, Reduction, Terms, guard, reduce
from vlrft.objectives.correction import Correction
from vlrft.objectives.regularizer import Regularizer
from vlrft.schema.ranges import FiniteFloat, Positive, Share, UnitInterval
from vlrft.selection.group_filters import Keep, KeepAll
from vlrft.selection.injection import InjectGold
from vlrft.selection.replay import Replay
from vlrft.selection.rollout_filters import Selectors

COMPUTES = {
    "old_logprobs": "old log-probs (free with one update per batch)",
    "ref_logprobs": "reference log-probs",
    "entropy": "the gradient of the entropy",
    "group_stats": "statistics of whole groups (one more pass, without gradients, when a group is split)",
    "zero_signal_groups": "also groups of equal rewards",
}


@strict
class Reference:
    """The reference policy of a KL term, or of GVPO with `reference: initial`: the policy at the start of the stage, unless
    `update` changes it. With LoRA it is the model without its adapters."""

    update: Literal["never", "ema", "reset"] = "never"
    """ema: after each step, reference ← decay · reference + (1 − decay) · policy, in float32 at least; reset: a copy of the
    policy every `every` steps."""
    decay: UnitInterval = 0.99
    every: Positive = 100
    reset_optimizer: bool = False
    """true: a reset also makes the optimiser forget its moments (ProRL)."""

    def __post_init__(self) -> None:
        for name, rule in (("decay", "ema"), ("every", "reset")):
            if self.update != rule:
                refuse_idle(self, name, beside=f"update: {self.update}", unless=f"update: {rule}")


@strict
class Schedule:
    """A setting that changes over a stage: `{from: 0.2, to: 0.0, shape: cosine}`."""

    start: Annotated[FiniteFloat, Field(alias="from")]
    to: FiniteFloat
    shape: Literal["linear", "cosine"] = "linear"
    share: Share = 1.0
    """The share of the stage's steps after which it has reached `to` and stays."""

    def at(self, done: float) -> float:
        """The value when the share `done` of the stage's steps is done."""
        x = min(done / self.share, 1.0)
        if self.shape == "cosine":
            x = 0.5 * (1 - math.cos(math.pi * x))
        return self.start + (self.to - self.start) * x


def set_in_steps(steps: Choice, path: str, value: float) -> list[Any]:
    """A copy of an estimator's steps with a number at `0.key`, or at `0.key.name` where the setting `key` is a mapping."""
    number, key, *name = path.split(".", 2)  # a name, such as that of a reward, may have dots
    changed: list[Any] = list(steps)
    step = dict(changed[int(number)])
    step[key] = {**step[key], name[0]: value} if name else value
    changed[int(number)] = step
    return changed


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """Advantage estimator, objective, reduction, keep rule, regularisers; `vlrft list algorithms` prints them."""

    name: str
    doc: str
    paper: str
    objective: Objective
    advantage: Choice = "centred"
    reduction: Reduction = "sequence"
    keep: Keep = field(default_factory=KeepAll)
    select: Selectors = None
    """Selects the rollouts of a kept group to train on; a tuple: one rule after the other; None: all."""
    inject: InjectGold | None = None
    """Puts gold answers into groups before the keep rule sees them; None: none."""
    replay: Replay | None = None
    """Adds rollouts of earlier policies to the fresh ones; None: none."""
    correction: Correction | None = None
    """Weighs tokens that another policy sampled than the one at the start of the step; None: as if that were the same."""
    regularize: Regularizer = field(default_factory=Regularizer)
    reference: Reference = field(default_factory=Reference)
    answers: Literal["sampled", "gold", "gold_and_observations"] = "sampled"
    """gold: what the task's gold answer says; gold_and_observations: in a growing context also what the environment says after its
    first observation."""
    notes: str = ""
    schedules: Mapping[str, Schedule] = field(default_factory=dict[str, Schedule])
    """`part.key` -> its schedule, `advantage.0.key` that of a setting of the first step; `override` makes it from a setting
    that is a mapping with `from`."""

    @property
    def estimator(self) -> Estimator:
        """The estimator that `advantage` names or lists the steps of."""
        return find_estimator(self.advantage)

    @property
    def min_trained(self) -> int:
        """The fewest rollouts of a group that the objective works with."""
        return int(getattr(self.objective, "min_group", 1))

    @property
    def min_group(self) -> int:
        """The fewest rollouts of a group that the estimator and the objective work with."""
        return max(self.estimator.min_group, self.min_trained)

    @property
    def needs(self) -> Needs:
        """Everything that the loop must compute at any point of the schedules."""
        needs = Needs(old_logprobs=self.correction is not None)
        for done in (0.0, 1.0) if self.schedules else (0.0,):
            now = self.at(done)
            needs = now.objective.needs | now.regularize.needs | needs
        return needs

    def at(self, done: float) -> Algorithm:
        """The algorithm when the share `done` of the stage's steps is done, with a number in place of each schedule."""
        parts: dict[str, Any] = {}
        for path, schedule in self.schedules.items():
            part, key = path.split(".", 1)
            if part == "advantage":
                steps = parts.get(part, self.advantage)
                parts[part] = set_in_steps(steps, key, schedule.at(done))
                continue
            owner = parts.get(part, getattr(self, part))
            parts[part] = replace(owner, **{key: schedule.at(done)})
        return replace(self, **parts)

    @phase("loss")
    def loss(self, logprobs: Float[Tensor, "B T"], batch: LossBatch) -> tuple[Tensor, Terms]:
        """The rows' part of the step's loss [], and the terms that it is the reduction of."""
        guarded = guard(logprobs, batch.mask, "log-probs")
        if batch.entropy is not None:
            batch = replace(batch, entropy=guard(batch.entropy, batch.mask, "entropy"))
        terms = self.objective(guarded, batch)
        if self.correction is not None:
            terms = self.correction(terms, batch)
        terms = self.regularize(terms, guarded, batch)
        return reduce(terms, batch, self.reduction), terms

    def describe(self) -> dict[str, str]:
        """Everything that helps to choose the algorithm, by title; empty entries are left out."""
        needs = [words for name, words in COMPUTES.items() if getattr(self.needs, name)]
        if self.estimator.greedy:
            needs.append("a greedy answer per prompt")
        if signals := self.estimator.sampled_signals:
            needs.append(f"signals of sampled tokens: {', '.join(signals)}")
        entries = {
            "doc": self.doc,
            "paper": self.paper,
            "advantage": f"{self.estimator.name}: {self.estimator.equation or self.estimator.doc}",
            "objective": repr(self.objective),
            "reduction": self.reduction,
            "keep": repr(self.keep),
            "select": repr(self.select) if self.select is not None else "",
            "inject": repr(self.inject) if self.inject is not None else "",
            "replay": repr(self.replay) if self.replay is not None else "",
            "correction": repr(self.correction) if self.correction is not None else "",
            "regularize": repr(self.regularize) if self.regularize != Regularizer() else "",
            "reference": repr(self.reference) if self.needs.ref_logprobs else "",
            "answers": self.answers,
            "computes": "; ".join(["log-probs of the action tokens", *needs]),
            "notes": self.notes,
        }
        return {key: value for key, value in entries.items() if value}
