"""The page of the measurements."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.records import Records
from benchmarks.rollout_engines import steps
from benchmarks.rollout_engines.sides import SIZES

Row = dict[str, Any]


def page(records: Records, python: str) -> str:
    """All parts that have rows; it says which are missing."""
    lines = [
        "# The rollout engines hf and vllm on a CPU",
        "",
        "`python -m benchmarks.rollout_engines`: Qwen2-VL with random weights in float32; the trainer's process and the server have one thread",
        "each. No GPU was used, and no number here says anything about one. Processor seconds are of all processes, the server's included; seconds",
        "depend on the other work on the machine, whose load (of its "
        f"{os.cpu_count()} cores) is the last column.",
        "",
        f"Python {platform.python_version()}, torch {version('torch')}, transformers {version('transformers')}; the server's: {server_versions(python)}.",
        f"{processor()}.",
    ]
    lines += _speed(records) + _steps(records) + _episodes(records)
    return "\n".join(lines) + "\n"


def server_versions(python: str) -> str:
    """Versions in the server's environment."""
    code = (
        "from importlib.metadata import version as v; "
        "print(f\"vLLM {v('vllm')}, torch {v('torch')}, transformers {v('transformers')}\")"
    )
    if not Path(python).is_file():
        return "none, so vllm was not measured"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def processor() -> str:
    """The processor's name."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{names[0]}, {len(names)} cores" if names else "an unknown processor"


def _speed(records: Records) -> list[str]:
    lines = [
        "",
        "## Tokens for each processor second",
        "",
        "Completions of one length, prompts with an image of 16 tokens; the better of two repeats. The prompt is part of the time.",
        "vllm is asked over HTTP, one request a completion; its processor time is that of the API server, the engine and its worker.",
        "",
    ]
    rows: list[list[str]] = []
    for size in SIZES:
        for engine in ("hf", "vllm"):
            found = records.find({"part": "speed", "size": size, "engine": engine})
            rows += [_speed_cells(row) for row in found]
            if not found:
                rows.append([size, engine, "not measured", "", "", "", "", ""])
    head = ["size", "engine", "group", "completions × tokens", "tokens / processor s", "of it ours", "tokens / s", "load"]  # fmt: skip
    return lines + table(head, rows)


def _speed_cells(row: Row) -> list[str]:
    return [
        f"{row['parameters'] / 1e6:.1f} M",
        row["engine"],
        str(row["group"]),
        f"{row['rows']} × {row['length']}",
        f"{row['tokens'] / row['cpu_seconds']:,.0f}",
        f"{row['own_cpu_seconds'] / row['cpu_seconds']:.0%}",
        f"{row['tokens'] / row['seconds']:,.0f}",
        f"{row['load']:.0f}",
    ]


def _steps(records: Records) -> list[str]:
    lines = [
        "",
        "## Steps with rollout.ahead",
        "",
        f"Runs of {steps.STEPS} steps ({steps.PROMPTS} prompts, groups of {steps.GROUP}, {steps.LENGTH} tokens at most) with the model of 1 M parameters: medians after the first {steps.SKIP}",
        "steps. The model has the times of the run with ahead 0. It assumes that trainer and server have a core each and that the machine has no",
        "other work: where the load differs from row to row, the rows cannot be compared, with each other or with the model.",
        "",
    ]
    rows: list[list[str]] = []
    for row in records.rows:
        if row["part"] != "steps":
            continue
        start = records.find({"part": "steps", "engine": row["engine"], "ahead": 0})
        model = steps.expect(start[-1], row["ahead"]) if start else None
        rows.append(
            [
                row["engine"],
                str(row["ahead"]),
                f"{row['time/step_s']:.2f}",
                "" if model is None else f"{model['step_seconds']:.2f}",
                f"{row['time/rollout_s']:.2f}",
                f"{row['time/update_s']:.2f}",
                f"{row.get('staleness/mean', 0.0):.2f}",
                "" if model is None else f"{model['staleness']:.2f}",
                f"{row['load']:.0f}",
            ]
        )
    if not rows:
        return [*lines, "Not measured."]
    head = ["engine", "ahead", "step, s", "model", "waiting for rollouts, s", "update, s", "staleness", "model", "load"]  # fmt: skip
    return lines + table(head, rows)


def _episodes(records: Records) -> list[str]:
    lines = [
        "",
        "## Episodes",
        "",
        "Untrained policies of 1 M parameters, environments in two worker processes. hf plays in lock-step; with vllm each turn is sent as it",
        "is ready. Turns differ between the engines, as their random numbers do.",
        "",
    ]
    rows = [
        [
            row["task"],
            row["engine"],
            f"{row['episodes']} / {row['turns']}",
            f"{row['tokens']:,}",
            f"{1e3 * row['cpu_seconds'] / row['turns']:.0f}",
            f"{1e3 * row['seconds'] / row['turns']:.0f}",
            str(row["failed"]),
            f"{row['load']:.0f}",
        ]
        for row in records.rows
        if row["part"] == "episodes"
    ]
    if not rows:
        return [*lines, "Not measured."]
    head = ["task", "engine", "episodes / turns", "tokens", "processor ms / turn", "ms / turn", "failed", "load"]  # fmt: skip
    return lines + table(head, rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", "| --- | --- |" + " ---: |" * (len(head) - 2)]
    return lines + [f"| {' | '.join(row)} |" for row in rows]
