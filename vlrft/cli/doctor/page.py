"""The text of `vlrft doctor CONFIG`: a table for each stage, and what to change when the run does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vlrft.cli.doctor.planner import DevicePlan, plan_config
from vlrft.memory.plan import FILL_LIMIT, PARTS, MemoryPlan, format_bytes
from vlrft.memory.rank_memory import PartBytes
from vlrft.trainer.memory_plan.disk import checkpoint_lines
from vlrft.trainer.memory_plan.planner import StagePlan
from vlrft.trainer.memory_plan.suggestions import Suggestion, peak_bytes, suggest_settings


def print_plan(path: str, overrides: Sequence[str], memory: str | None, ranks: int | None) -> bool:
    """Prints the plan of one of the ranks; returns whether it fits. `memory`: of the device, such as 80GiB; None: that of
    this machine. `ranks`: None: as many as the config is meant for.

    Raises ConfigError for a config that does not load and for a model whose config is not available.
    """
    run = plan_config(path, overrides, memory, ranks)
    for line in plan_lines(run):
        print(line)
    return run.fits


def plan_lines(run: DevicePlan) -> list[str]:
    """The lines of the page."""
    config, planner, plans = run.config, run.planner, run.stages
    rank = "" if planner.ranks == 1 else f" of one of {planner.ranks} ranks"
    lines = [f"Peak memory{rank} on {run.where}, estimated from shapes alone (no weights are read)"]
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
    disk = checkpoint_lines(config, plans, run.folder)
    lines += ["", *(f"{name}{line}" for name, line in zip(("disk: ", "  "), disk, strict=False))]
    peak, total = peak_bytes(plans), format_bytes(run.memory)
    lines.append("")
    if run.fits:
        return [*lines, f"fits: {format_bytes(peak)} of {total}"]
    lines.append(
        f"does not fit: {format_bytes(peak)}, and a tenth of {total} is best left free. Settings that help, each alone:"
    )
    suggestions = suggest_settings(config, planner)
    return [*lines, *_suggestion_lines(suggestions, run.memory)]


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
