"""The planner's verdict on a run before its policy is loaded: one line, or a refusal where the device has too little memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from vlrft.config import Config
from vlrft.distributed.device import find_device
from vlrft.distributed.ranks import Ranks, ranks_on_this_machine
from vlrft.memory.plan import FILL_LIMIT, format_bytes
from vlrft.schema import VlrftError
from vlrft.schema.errors import ConfigError
from vlrft.schema.short_message import first_line, short_message
from vlrft.trainer.memory_plan.device_memory import available_memory, free_memory
from vlrft.trainer.memory_plan.planner import Planner, RunTasks, StagePlan, peak_bytes
from vlrft.trainer.memory_plan.proposal import propose


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A line for the user, and the plan; empty where there is none."""

    line: str
    stages: Sequence[StagePlan] = ()


def check_memory(config: Config, tasks: RunTasks, ranks: Ranks) -> Verdict:
    """The planned peak of one rank, when it is reached, and the memory of the rank's device; or why there is no plan.

    Raises ConfigError where the peak is more than the device has and `config.memory_check` is true, with a change that
    would fit.
    """
    device = find_device(config.device)
    try:
        with torch.random.fork_rng(devices=[]):
            planner = Planner(config, device, ranks.size, tasks)
            stages = planner.plans(config)
    except VlrftError as e:
        return Verdict(line=f"not planned: {first_line(e)}")
    except Exception as e:  # a model that the formulas do not describe; it may train all the same
        return Verdict(line=f"not planned: {short_message(e)}")
    size, where = available_memory(None, device, ranks_on_this_machine(ranks))
    highest = max(stages, key=lambda stage: stage.plan.peak.total)
    peak, free = highest.plan.peak.total, free_memory(device)
    line = f"peak about {format_bytes(peak)} ({_moment(highest, stages)}) on {where}, {format_bytes(free)} of it free now"
    notes = _notes(config, planner, stages, size, free)
    return Verdict(line="; ".join([line, *notes]), stages=stages)


def _notes(
    config: Config, planner: Planner, stages: Sequence[StagePlan], size: int, free: int
) -> list[str]:
    """Remarks on the plan on a device with `size` bytes, of which `free` are not in use. Raises ConfigError as
    `check_memory`."""
    peak, notes = peak_bytes(stages), list[str]()
    if not all(stage.engine_modelled for stage in stages):
        notes.append("the engine has no memory model and may take less")
    elif peak > size:
        if config.memory_check:
            raise ConfigError([_refusal(config, planner, peak, size)])
        notes.append("more than there is, and started all the same (memory_check=false)")
    elif peak > FILL_LIMIT * size:
        notes.append("may not fit; vlrft doctor CONFIG says what helps")
    elif peak > free:
        notes.append("more than is free")
    if not all(stage.sampling_modelled for stage in stages):
        notes.append("without sampling: the rollout engine has no memory model")
    return notes


def _moment(highest: StagePlan, stages: Sequence[StagePlan]) -> str:
    """When the peak is reached, with the name of the stage where there are several."""
    peak = highest.plan.peak
    stage = f" of {highest.name}" if len(stages) > 1 else ""
    return f"{peak.name}{stage}, {peak.moment}"


def _refusal(config: Config, planner: Planner, peak: int, size: int) -> str:
    """Why the run cannot start, and the settings with which it would fit."""
    proposal = propose(config, planner, size)
    helps = "no change that vlrft tries makes it fit"
    if proposal is not None:
        helps = f"it fits with {proposal.arguments} ({format_bytes(proposal.peak)})"
    return (
        f"memory: the run needs {format_bytes(peak)} at its peak and its device has {format_bytes(size)}; {helps}; "
        "memory_check=false starts it as it is"
    )
