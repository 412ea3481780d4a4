"""The text of `vlrft doctor CONFIG`: a table for each stage, and what to change when the run does not fit."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlrft.cli.doctor.planner import DevicePlan, plan_config
from vlrft.config import Config
from vlrft.config.load import dump_config
from vlrft.memory.plan import PARTS, MemoryPlan, format_bytes
from vlrft.memory.rank_memory import PartBytes
from vlrft.rollout.engines import ProbedEngineKind, find_rollout_engine
from vlrft.schema.errors import ConfigError
from vlrft.trainer.memory_plan.disk import checkpoint_lines
from vlrft.trainer.memory_plan.planner import StagePlan, peak_bytes
from vlrft.trainer.memory_plan.proposal import Proposal


def print_plan(
    path: str,
    overrides: Sequence[str],
    memory: str | None,
    ranks: int | None,
    write: Path | None = None,
) -> bool:
    """Prints the plan of one of the ranks, and where the run does not fit a config that does; returns whether it fits.
    `memory`: of the device, such as 80GiB; None: that of this machine. `ranks`: None: as many as the config is meant for.
    `write`: the file of a config that fits, which is this one where it does.

    Raises ConfigError for a config that does not load, for a model whose config is not available, and for a file to write
    that is there, whose folder is not, or where nothing fits; and before it prints anything, for a rollout engine that would not run.
    """
    if write is not None and write.exists():
        raise ConfigError([f"--write {write}: the file is there; choose another name"])
    if write is not None and not write.parent.is_dir():
        raise ConfigError([f"--write {write}: there is no folder {write.parent}"])
    run = plan_config(path, overrides, memory, ranks)
    programs = probe_rollout_engine(run.config)
    for line in plan_lines(run):
        print(line)
    proposal = None if run.fits else run.propose()
    if not run.fits:
        for line in proposal_lines(run, proposal):
            print(line)
    for line in programs:
        print(line)
    if write is not None:
        if not run.fits and proposal is None:
            raise ConfigError([f"--write {write}: there is no config that fits"])
        config = run.config if proposal is None else proposal.config
        write_config(write, run, config)
        print(f"written: {write}")
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
    return [
        *lines,
        f"does not fit: {format_bytes(peak)}, and a tenth of {total} is best left free",
    ]


def probe_rollout_engine(config: Config) -> list[str]:
    """Lines about the programs of the rollout engine, where it has some. Raises ConfigError for what a run would refuse."""
    kind = find_rollout_engine(config.rollout.engine)
    kind.check(config.rollout)
    return kind.probe() if isinstance(kind, ProbedEngineKind) else []


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


def proposal_lines(run: DevicePlan, proposal: Proposal | None) -> list[str]:
    """The changes that make the run fit, in order, with the peak after each; and the command."""
    if proposal is None:
        return [
            "",
            "nothing that doctor tries makes it fit: smaller micro-batches, fewer rows sampled at once, smaller images, LoRA, "
            "4-bit weights, more ranks; take a smaller policy.model, or shorter rollout.max_tokens",
        ]
    rows = [
        (" ".join(change.settings), format_bytes(change.after), change.effect)
        for change in proposal.changes
    ]
    rows += [(setting, "", "the same, of a stage with its own limit") for setting in proposal.more]
    widths = [max(len(row[k]) for row in rows) for k in range(2)]
    lines = [
        "",
        "it fits with these changes, those first that change results least; the peak with each and those above it:",
    ]
    lines += [
        f"  {s.ljust(widths[0])}  {size.rjust(widths[1])}  {effect}" for s, size, effect in rows
    ]
    several = proposal.ranks > 1
    command = ["vlrft", "launch" if several else "train", run.path, *run.kept(proposal)]
    ranks = f" --ranks {proposal.ranks}" if several else ""
    return [*lines, "", f"{shlex.join(command)} {proposal.arguments}{ranks}"]


def write_config(path: Path, run: DevicePlan, config: Config) -> None:
    """Writes a config with all its keys, under a comment that says where it comes from."""
    source = shlex.join([run.path, *run.overrides])
    comment = f"# Made by vlrft doctor from {source}, for {run.where}\n"
    path.write_text(comment + dump_config(config), encoding="utf-8")
