"""A whole config that fits a device: the smallest set of changes to a run that is too large, as settings by name."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from vlrft.config import Config, TaskConfig
from vlrft.config.configured import configured_task
from vlrft.engine import planned_choices
from vlrft.memory.plan import FILL_LIMIT
from vlrft.trainer.memory_plan.changes import Knob, find_knobs, flow
from vlrft.trainer.memory_plan.planner import Planner, peak_bytes

HELPS = 0.98  # a change is worth making when the peak falls below this share of the present one
MORE_RANKS = (2, 4, 8)  # tried where nothing fits one device


@dataclass(frozen=True, kw_only=True)
class ProposedChange:
    """Settings of a proposal, their effect, and the peak with those before them and with them too, in bytes."""

    settings: tuple[str, ...]
    effect: str
    before: int
    after: int


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A config that fits, and the changes that lead to it, in order. `ranks`: of the run; `more`: settings that single
    stages need in addition."""

    config: Config
    changes: tuple[ProposedChange, ...]
    peak: int
    ranks: int
    more: tuple[str, ...] = ()

    @property
    def settings(self) -> tuple[str, ...]:
        """All settings, as they are written on the command line. Of two for one key the later holds."""
        named = {s.partition("=")[0]: s for change in self.changes for s in change.settings}
        return (*named.values(), *self.more)

    @property
    def arguments(self) -> str:
        """All settings, quoted for a shell."""
        return " ".join(map(shlex.quote, self.settings))


def propose(config: Config, planner: Planner, memory: int) -> Proposal | None:
    """The proposal for devices of `memory` bytes each; None where nothing fits. Where one GPU is too small, more are tried."""
    multimodal = planner.model.tower is not None
    resizable = not any(_in_pixels(stage.task) for stage in config.stages)
    knobs = find_knobs(config, multimodal=multimodal, resizable=resizable, ranks=planner.ranks)
    proposal = _search(config, planner, knobs, memory)
    if proposal is not None or planner.ranks > 1 or not planner.device.startswith("cuda"):
        return proposal
    alone = peak_bytes(planner.plans(config))
    for ranks, engine in product(MORE_RANKS, planned_choices()):
        count = replace(config.ranks, count=ranks)
        shared = replace(config, ranks=count, engine=engine)
        planner = planner.for_ranks(ranks)
        knobs = find_knobs(shared, multimodal=multimodal, resizable=resizable, ranks=1)
        proposal = _search(shared, planner, knobs, memory)
        if proposal is not None:
            first = ProposedChange(
                settings=(f"ranks.count={ranks}", f"engine={flow(engine)}"),
                effect=f"same results, on {ranks} GPUs",
                before=alone,
                after=peak_bytes(planner.plans(shared)),
            )
            return replace(proposal, changes=(first, *proposal.changes))
    return None


def _search(
    config: Config, planner: Planner, knobs: Sequence[Knob], memory: int
) -> Proposal | None:
    """Turns the first knob that helps, again and again; and at the end each back as far as the run still fits, from the one
    that changes results most."""
    peaks: dict[tuple[int, ...], int] = {}

    def peak(levels: tuple[int, ...]) -> int:
        if levels not in peaks:
            peaks[levels] = peak_bytes(planner.plans(_apply(config, knobs, levels)))
        return peaks[levels]

    limit = int(FILL_LIMIT * memory)
    levels = (0,) * len(knobs)
    while peak(levels) > limit:
        turned = (_set(levels, k, to) for k, to in _higher(knobs, levels))
        better = next((one for one in turned if peak(one) < HELPS * peak(levels)), None)
        if better is None:
            return None
        levels = better
    for k in reversed(range(len(knobs))):
        fitting = (_set(levels, k, to) for to in range(levels[k] + 1))
        levels = next(one for one in fitting if peak(one) <= limit)
    changes: list[ProposedChange] = []
    partial = (0,) * len(knobs)
    for k, knob in enumerate(knobs):
        if levels[k]:
            before, partial = peak(partial), _set(partial, k, levels[k])
            settings = knob.levels[levels[k] - 1].settings
            changes.append(
                ProposedChange(
                    settings=settings, effect=knob.effect, before=before, after=peak(partial)
                )
            )
    return Proposal(
        config=_apply(config, knobs, levels),
        changes=tuple(changes),
        peak=peak(levels),
        ranks=planner.ranks,
    )


def _higher(knobs: Sequence[Knob], levels: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(index of a knob, a level above its present one), knob by knob."""
    for k, knob in enumerate(knobs):
        for level in range(levels[k] + 1, len(knob.levels) + 1):
            yield k, level


def _set(levels: tuple[int, ...], k: int, level: int) -> tuple[int, ...]:
    return (*levels[:k], level, *levels[k + 1 :])


def _apply(config: Config, knobs: Sequence[Knob], levels: Sequence[int]) -> Config:
    for knob, level in zip(knobs, levels, strict=True):
        if level:
            config = knob.levels[level - 1].apply(config)
    return config


def _in_pixels(config: TaskConfig) -> bool:
    """Whether answers of the task are in pixels of a resized image, which the policy's bounds would change."""
    task, options = configured_task(config)
    return task.resize is not None and task.resize(options) is not None
