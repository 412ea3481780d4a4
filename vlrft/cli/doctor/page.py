"""The text of `vlrft doctor CONFIG`: a table for each stage, and what to change when the run does not fit."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from vlrft.cli.doctor.planner import Planner, StagePlan
from vlrft.cli.doctor.suggestions import Suggestion, peak_bytes, suggest_settings
from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.distributed.device import pick_device
from vlrft.memory.plan import FILL_LIMIT, PARTS, MemoryPlan, format_bytes
from vlrft.memory.rank_memory import PartBytes
from vlrft.schema.errors import ConfigError

BYTES_FROM = 1e6  # a smaller number without a unit is in GiB
UNITS = {"": 1, "b": 1}
UNITS |= {f"{k}b": 1000**n for n, k in enumerate("kmgt", 1)}
UNITS |= {f"{k}ib": 1024**n for n, k in enumerate("kmgt", 1)}


def print_plan(path: str, overrides: Sequence[str], memory: str | None, ranks: int | None) -> bool:
    """Prints the plan of one of the ranks; returns whether it fits. `memory`: of the device, such as 80GiB; None: that of
    this machine. `ranks`: None: as many as the config is meant for.

    Raises ConfigError for a config that does not load and for a model whose config is not available.
    """
    config = load_config(path, overrides)
    device = pick_device(config.device)
    ranks = ranks or config.ranks.count or 1
    size, where = available_memory(memory, device, ranks)
    planner = Planner(config, device, ranks)
    plans = planner.plans(config)
    for line in plan_lines(config, planner, plans, size, where):
        print(line)
    return fits(plans, size)


def fits(plans: Sequence[StagePlan], memory: int) -> bool:
    """Whether the peak of all stages leaves a tenth of the memory free."""
    return peak_bytes(plans) <= FILL_LIMIT * memory


def plan_lines(
    config: Config, planner: Planner, plans: Sequence[StagePlan], memory: int, where: str
) -> list[str]:
    """The lines of the page. `memory`: bytes that a rank may use, `where` in words."""
    rank = "" if planner.ranks == 1 else f" of one of {planner.ranks} ranks"
    lines = [f"Peak memory{rank} on {where}, estimated from shapes alone (no weights are read)"]
    for stage in plans:
        lines += ["", f"stage {stage.name}; prompts: {stage.origin}", *table(stage.plan)]
        lines.append(_peak_line(stage))
    if not all(stage.engine_modelled for stage in plans):
        lines += [
            "",
            f"engine {_name(config.engine)} has no memory model: planned as if every rank held all weights and the whole optimiser",
        ]
    if not all(stage.sampling_modelled for stage in plans):
        name = _name(config.rollout.engine)
        lines += ["", f"rollout.engine {name} has no memory model: sampling is not counted"]
    peak, total = peak_bytes(plans), format_bytes(memory)
    lines.append("")
    if fits(plans, memory):
        return [*lines, f"fits: {format_bytes(peak)} of {total}"]
    lines.append(
        f"does not fit: {format_bytes(peak)}, and a tenth of {total} is best left free. Settings that help, each alone:"
    )
    suggestions = suggest_settings(config, planner)
    return [*lines, *_suggestion_lines(suggestions, memory)]


def _name(choice: str | Mapping[str, Any]) -> str:
    """The name in a choice of an engine."""
    return choice if isinstance(choice, str) else str(choice["name"])


def table(plan: MemoryPlan) -> list[str]:
    """A row for each part, a column for each phase; below them the same for host memory."""
    rows = [["", *(phase.name for phase in plan.phases)]]
    rows += _rows([phase.parts for phase in plan.phases])
    if any(phase.host for phase in plan.phases):
        rows += [["host memory", *("" for _ in plan.phases)]]
        rows += _rows([phase.host for phase in plan.phases])
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  " + "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]


def _rows(phases: Sequence[PartBytes]) -> list[list[str]]:
    parts = [part for part in PARTS if any(part in sizes for sizes in phases)]
    rows = [[part, *(_cell(sizes.get(part, 0)) for sizes in phases)] for part in parts]
    return [*rows, ["total", *(_cell(sum(sizes.values())) for sizes in phases)]]


def _cell(size: int) -> str:
    return format_bytes(size) if size else "-"


def _peak_line(stage: StagePlan) -> str:
    peak = stage.plan.peak
    return f"  peak: {peak.name} ({peak.moment}), {format_bytes(peak.total)}"


def _suggestion_lines(suggestions: Sequence[Suggestion], memory: int) -> list[str]:
    width = max((len(suggestion.setting) for suggestion in suggestions), default=0)
    lines = [
        f"  {suggestion.setting.ljust(width)}  {format_bytes(suggestion.peak):>10}"
        + ("  fits" if suggestion.peak <= FILL_LIMIT * memory else "")
        for suggestion in suggestions
    ]
    return lines or ["  none of those that doctor tries"]


def available_memory(memory: str | None, device: str, ranks: int = 1) -> tuple[int, str]:
    """Bytes that a rank may use, and of which device in words: `memory`, or a GPU's own, or the rank's part of the host's."""
    kind = "a GPU" if device.startswith("cuda") else "a CPU"
    if memory is not None:
        size = parse_size(memory)
        return size, f"{kind} with {format_bytes(size)}"
    if device.startswith("cuda"):
        if not torch.cuda.is_available():
            raise ConfigError(
                ["device=cuda, but this machine has no GPU: give --memory, such as 80GiB"]
            )
        gpu = torch.cuda.get_device_properties(0)
        return int(gpu.total_memory), f"{gpu.name} with {format_bytes(gpu.total_memory)}"
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    shared = "" if ranks == 1 else f", shared by {ranks} ranks"
    return size // ranks, f"this CPU with {format_bytes(size)}{shared}"


def parse_size(text: str) -> int:
    """Bytes of `80GiB`, `24 GB`, `512MiB`; a plain number is in bytes, or in GiB where so few bytes would be no memory.

    Raises ConfigError for anything else.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].lower() not in UNITS or float(match[1]) == 0:
        raise ConfigError([f"--memory {text}: expected a size such as 80GiB or 24GB"])
    if not match[2] and float(match[1]) < BYTES_FROM:
        return int(float(match[1]) * UNITS["gib"])
    return int(float(match[1]) * UNITS[match[2].lower()])
