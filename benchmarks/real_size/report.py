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


def measured(trial: Trial, phase: str) -> dict[str, float]:
    """Median over the training runs of a phase's peak, and of its seconds."""
    rows = []
    for run in trial["train"]:
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
        if shape["parameters"] != shape["published"]:
            lines.append(f"{shape['parameters']} parameters, published are {shape['published']}")
    if "train" not in trial:
        return lines
    plan = trial["shapes"][0]["plan"]
    for phase in HELD_TO:
        ratio = plan[phase]["total"] / measured(trial, phase)["peak"]
        if abs(ratio - 1) > ALLOWED:
            lines.append(f"{phase}: the plan is {ratio:.2f} of what is measured")
    for loaded in trial.get("load", ()):
        if loaded["missing"] or loaded["unexpected"] or not loaded["generated"]:
            lines.append(f"plain transformers: {loaded}")
    return lines


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
        size = format_bytes(shape["plan"]["rollout"]["parts"]["weights"])
        lines.append(
            f"{shape['parameters']:,} parameters, as published; planned weights with adapters {size}."
        )
        if "train" not in trial:
            peak = max(shape["plan"].items(), key=lambda item: item[1]["total"])
            lines.append(f"Planned peak {format_bytes(peak[1]['total'])}, in {peak[0]}.")
    if "train" in trial:
        lines += ["", *_phases(trial), "", *_steps(trial), "", *_facts(trial)]
    return "\n".join(lines) + "\n"


def _phases(trial: Trial) -> list[str]:
    rows = ["| phase of a run | planned | measured | ratio | seconds |", "| --- | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for phase, planned in trial["shapes"][0]["plan"].items():
        values = measured(trial, phase)
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
    return rows


def _facts(trial: Trial) -> list[str]:
    run, loaded = trial["train"][0], trial["load"][0]
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in run["metrics"].items())
    return [
        f"First run: {metrics}; the merged bfloat16 weights hold {100 * run['kept']:.1f} % of the adapters' update.",
        f"Plain transformers on the export: {loaded['missing']} missing, {loaded['unexpected']} unexpected, "
        f"{loaded['changed']} of {loaded['changed'] + loaded['same']} tensors changed, {loaded['generated']} tokens "
        f"generated, {loaded['processor']}.",
    ]
