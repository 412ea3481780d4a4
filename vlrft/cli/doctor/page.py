"""What `vlrft doctor CONFIG` prints: a table a stage, and what to change when the run does not fit."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from vlrft.cli.doctor.planner import Planner, StagePlan, Suggestion, peak, suggestions
from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.distributed.device import pick_device
from vlrft.memory.plan import FILL_LIMIT, PARTS, MemoryPlan, format_bytes
from vlrft.schema.errors import ConfigError

UNITS = {"": 1, "b": 1}
UNITS |= {f"{k}b": 1000**n for n, k in enumerate("kmgt", 1)}
UNITS |= {f"{k}ib": 1024**n for n, k in enumerate("kmgt", 1)}


def show(config: str, overrides: Sequence[str], memory: str | None, ranks: int) -> None:
    """Prints the plan of one of the ranks. Raises ConfigError for a config that does not load or a model that is not at
    hand."""
    found = load_config(config, overrides)
    device = pick_device(found.device)
    size, where = available(memory, device, ranks)
    planner = Planner(found, device, ranks)
    for line in page(found, planner, size, where):
        print(line)


def page(config: Config, planner: Planner, memory: int, where: str) -> list[str]:
    """The lines: stages whose tables are equal are told once."""
    planned = planner.plans(config)
    whose = "" if planner.ranks == 1 else f" of one of {planner.ranks} ranks"
    lines = [f"Peak memory{whose} on {where}, estimated from shapes alone (no weights are read)"]
    for one in planned:
        lines += ["", f"stage {one.name}; prompts: {one.origin}", *table(one.plan), _peak_line(one)]
    if not all(one.engine_modelled for one in planned):
        lines += [
            "",
            f"engine {_name(config.engine)} has no memory model: planned as if every rank held all weights and the whole optimiser",
        ]
    if not all(one.sampling_modelled for one in planned):
        name = _name(config.rollout.engine)
        lines += ["", f"rollout.engine {name} has no memory model: what it holds is not counted"]
    largest = peak(planned)
    lines.append("")
    if largest <= FILL_LIMIT * memory:
        return [*lines, f"fits: {format_bytes(largest)} of {format_bytes(memory)}"]
    lines.append(
        f"does not fit: {format_bytes(largest)}, and a tenth of {format_bytes(memory)} is best left free. Settings that help, "
        "each alone:"
    )
    told = suggestions(config, planner)
    return [*lines, *_told(told, memory)] if told else [*lines, "  none that is known here"]


def _name(choice: str | Mapping[str, Any]) -> str:
    """The name in a choice of an engine."""
    return choice if isinstance(choice, str) else str(choice["name"])


def table(plan: MemoryPlan) -> list[str]:
    """Parts downwards, phases across; below them what lies in the machine's memory."""
    rows = [["", *(phase.name for phase in plan.phases)]]
    rows += _rows([phase.parts for phase in plan.phases])
    if any(phase.host for phase in plan.phases):
        rows += [["machine's memory", *("" for _ in plan.phases)]]
        rows += _rows([phase.host for phase in plan.phases])
    wide = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  " + "  ".join([row[0].ljust(wide[0]), *map(str.rjust, row[1:], wide[1:])]).rstrip()
        for row in rows
    ]


def _rows(phases: Sequence[Mapping[str, int]]) -> list[list[str]]:
    parts = [part for part in PARTS if any(part in sizes for sizes in phases)]
    rows = [[part, *(_cell(sizes.get(part, 0)) for sizes in phases)] for part in parts]
    return [*rows, ["together", *(_cell(sum(sizes.values())) for sizes in phases)]]


def _cell(size: int) -> str:
    return format_bytes(size) if size else "-"


def _peak_line(one: StagePlan) -> str:
    fullest = one.plan.peak
    return f"  peak: {fullest.name} ({fullest.moment}), {format_bytes(fullest.total)}"


def _told(changes: Sequence[Suggestion], memory: int) -> list[str]:
    wide = max(len(change.setting) for change in changes)
    return [
        f"  {change.setting.ljust(wide)}  {format_bytes(change.peak):>10}"
        + ("  fits" if change.peak <= FILL_LIMIT * memory else "")
        for change in changes
    ]


def available(memory: str | None, device: str, ranks: int = 1) -> tuple[int, str]:
    """Bytes that a rank may have, and whose: what was asked for, else a GPU's, or its part of the machine's."""
    kind = "a GPU" if device.startswith("cuda") else "a CPU"
    if memory is not None:
        size = parse_size(memory)
        return size, f"{kind} with {format_bytes(size)}"
    if device.startswith("cuda"):
        if not torch.cuda.is_available():
            raise ConfigError(
                ["device=cuda, but there is no GPU here: say --memory, such as 80GiB"]
            )
        found = torch.cuda.get_device_properties(0)
        return int(found.total_memory), f"{found.name} with {format_bytes(found.total_memory)}"
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    shared = "" if ranks == 1 else f", which {ranks} ranks share"
    return size // ranks, f"this CPU with {format_bytes(size)}{shared}"


def parse_size(text: str) -> int:
    """`80GiB`, `24 GB`, `512MiB`, or bytes. Raises ConfigError for anything else."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if found is None or found[2].lower() not in UNITS or float(found[1]) == 0:
        raise ConfigError([f"--memory {text}: expected a size such as 80GiB or 24GB"])
    return int(float(found[1]) * UNITS[found[2].lower()])
