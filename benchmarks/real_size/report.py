"""The table of a trial: planned and measured memory by phase, times, and what the exported model is."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.real_size.released import MODELS
from vlrft.memory.plan import format_bytes
from vlrft.schema.pluralize import pluralize

ALLOWED = 0.05
HELD_TO = ("update", "save")  # the phases whose plan may be off by ALLOWED and no more
GIB = 2**30
PACKAGES = ("torch", "transformers", "peft", "safetensors")
SELF_CHECK = "self_check"

Trial = Mapping[str, Sequence[Mapping[str, Any]]]

# The paths of phases that belong to a phase of the plan.
PATHS: Mapping[str, Callable[[str], bool]] = {
    "self-check": lambda path: SELF_CHECK in path,
    "rollout": lambda path: path.startswith("rollout"),
    "update": lambda path: path.startswith("update") and SELF_CHECK not in path,
    "evaluation": lambda path: path.startswith("evaluation"),
    "save": lambda path: path.startswith("save"),
}


def take_medians(runs: Sequence[Mapping[str, Any]], phase: str) -> dict[str, float]:
    """Median over training runs of a phase's peak, and of its seconds."""
    rows = []
    for run in runs:
        parts = [part for path, part in run["phases"].items() if PATHS[phase](path)]
        rows.append(
            {
                "peak": max(part["peak"] for part in parts),
                "seconds": sum(part["seconds"] for part in parts),
                "cpu_seconds": sum(part["cpu_seconds"] for part in parts),
            }
        )
    return {key: median(row[key] for row in rows) for key in rows[0]}


def off_plan(trial: Trial) -> list[str]:
    """A line for each number that is not as it should be."""
    lines = []
    for shape in trial.get("shapes", ()):
        if shape["published"] not in (None, shape["parameters"]):
            lines.append(f"{shape['parameters']} parameters, published are {shape['published']}")
    for name, plan in _plans(trial):
        for phase in HELD_TO:
            ratio = plan[phase]["total"] / take_medians(trial[name], phase)["peak"]
            if abs(ratio - 1) > ALLOWED:
                lines.append(f"{name}, {phase}: the plan is {ratio:.2f} of what is measured")
    for loaded in trial.get("load", ()):
        if loaded["missing"] or loaded["unexpected"] or not loaded["generated"]:
            lines.append(f"plain transformers: {loaded}")
    return lines


def _plans(trial: Trial) -> list[tuple[str, Mapping[str, Any]]]:
    """The plans of the runs that were made, by the run's name."""
    plans = trial["shapes"][0]["plans"] if "shapes" in trial else {}
    return [(name, plan) for name, plan in plans.items() if name in trial]


def write_report(trials: Mapping[str, Trial], path: Path) -> str:
    """Writes the tables as Markdown, and returns them."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    text = f"""# Models of released size

    python -m benchmarks.real_size --work DIR

True shapes, random bfloat16 weights, the real tokenizer; LoRA of rank 16 on every linear module. {packages}; Python
{platform.python_version()}, {platform.system()} {platform.machine()}, OMP_NUM_THREADS={threads}. Memory is resident size above that of the
libraries, in GiB, the median of the training runs; seconds are of processor time, as the machine had other work.
"""
    text += "\n".join(_section(name, trial) for name, trial in trials.items() if trial)
    path.write_text(text)
    return text


def _section(name: str, trial: Trial) -> str:
    lines = [f"\n## {MODELS[name].name}\n"]
    for shape in trial.get("shapes", ()):
        published = "unknown" if shape["published"] is None else f"{shape['published']:,}"
        tensors = f" in {shape['tensors']} tensors" if "tensors" in shape else ""
        lines.append(f"{shape['parameters']:,} parameters{tensors}; published: {published}.")
        for run, plan in shape["plans"].items():
            peak = max(plan, key=lambda phase: plan[phase]["total"])
            total = format_bytes(plan[peak]["total"])
            weights = format_bytes(plan["rollout"]["parts"]["weights"])
            lines.append(
                f"`{run}`: planned weights with adapters {weights}, planned peak {total} in {peak}."
            )
    for run, plan in _plans(trial):
        lines += [
            "",
            f"`{run}`, {pluralize(len(trial[run]), 'run')}:",
            "",
            *_phases(plan, trial[run]),
        ]
    lines += ["", *_steps(trial)]
    if "load" in trial:
        lines += ["", *_facts(trial)]
    return "\n".join(lines) + "\n"


def _phases(plan: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = ["| phase of a run | planned | measured | ratio | seconds |", "| --- | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for phase, planned in plan.items():
        values = take_medians(runs, phase)
        total, peak = planned["total"], values["peak"]
        rows.append(
            f"| {phase} | {total / GIB:.2f} | {peak / GIB:.2f} | {total / peak:.2f} | {values['cpu_seconds']:.0f} |"
        )
    return rows


def _steps(trial: Trial) -> list[str]:
    rows = ["| step | measured peak | seconds | wall seconds | load |", "| --- | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for step, runs in trial.items():
        for run in runs:
            peaks = [part["peak"] for part in run.get("phases", {}).values()]
            peak = f"{max(peaks) / GIB:.2f}" if peaks else ""
            times = f"{run['cpu_seconds']:.0f} | {run['seconds']:.0f} | {run['load']:.1f}"
            rows.append(f"| {step} | {peak} | {times} |")
    runs = [run for runs in trial.values() for run in runs]
    cpu, wall = (sum(run[key] for run in runs) for key in ("cpu_seconds", "seconds"))
    return [*rows, f"| all | | {cpu:.0f} | {wall:.0f} | |"]


def _facts(trial: Trial) -> list[str]:
    run, loaded = trial["train"][0], trial["load"][0]
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in run["metrics"].items())
    return [
        f"First run: {metrics}; the merged bfloat16 weights hold {100 * run['kept']:.1f} % of the adapters' update.",
        f"Plain transformers on the export: {loaded['missing']} missing, {loaded['unexpected']} unexpected, "
        f"{loaded['changed']} of {loaded['changed'] + loaded['same']} tensors changed, {loaded['generated']} tokens "
        f"generated, {loaded['processor']}.",
    ]
