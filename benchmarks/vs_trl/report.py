"""The table of the rows that vs_trl.py wrote; every number and verdict in it is read from them."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.vs_trl.cases import CASES, Case

Row = dict[str, Any]
PACKAGES = ("vlrft", "trl", "torch", "transformers", "accelerate")
TITLES = "case | work | gate: worst gradient | vlrft | TRL | ratio | goal | "
KEYS = ("case", "scale", "family", "threads", "trl_rows")


def machine(threads: int) -> Row:
    """Where and with what the rows that follow were measured."""
    cpu = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(": ")[1] for line in cpu if line.startswith("model name")), "?")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "threads": threads,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def heading(rows: Sequence[Row]) -> str:
    """The machines, and what both sides ran with."""
    lines = ["# vlrft beside TRL's GRPOTrainer", "", "`python -m benchmarks.vs_trl` wrote this page; it says what is measured, and how.", ""]  # fmt: skip
    for row in rows:
        if "cpu" in row:
            versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
            lines.append(
                f"- {row['cpu']}, {row['cores']} cores, {row['threads']} threads, load {row['load_at_start']} at the "
                f"start; Python {row['python']}, {versions}"
            )
    return "\n".join([*lines, "", *_settings()])


def _settings() -> list[str]:
    from benchmarks.vs_trl.theirs import ATTENTION, SETTINGS

    shown = ", ".join(f"{name}={value!r}" for name, value in SETTINGS.items())
    return [
        f"TRL: {shown}, attention {ATTENTION}, no Liger (it needs a GPU). Completions a micro-batch: the fastest of 1, 4, "
        "16 (P6 and P6r: a group, as on our side; P6s: 1). Off GPUs TRL 1.16 runs the language-model head over prompts too and "
        "throws that away; here it is spared that, as on GPUs, except in P6r.",
        "",
        "vlrft: `dr_grpo`, whose loss is the same, its own defaults, the same AdamW rate, decay and clipping.",
        "",
        "Cells: median [quartiles] of the repeats; ratios are taken within a repeat.",
    ]


def page(rows: Sequence[Row]) -> str:
    """A table of the cases that are among the rows."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if "case" in row:
            found.setdefault(tuple(row[k] for k in KEYS), []).append(row)
    settings = dict.fromkeys(key[1:4] for key in found)
    parts: list[str] = []
    for scale, family, threads in settings:
        own = {key: v for key, v in found.items() if key[1:4] == (scale, family, threads)}
        parts += [f"## {family}, {scale} scale, {threads} threads", "", f"| {TITLES}|", "|---" * 8 + "|"]  # fmt: skip
        order = [case.name for case in CASES]
        parts += [_line(own, key) for key in sorted(own, key=lambda k: (order.index(k[0]), k[4]))]
        parts.append("")
    return "\n".join(parts).rstrip()


def _line(found: dict[tuple[Any, ...], list[Row]], key: tuple[Any, ...]) -> str:
    case = next(c for c in CASES if c.name == key[0])
    rows = found[key]
    gates = [row for row in rows if "gate" in row]
    repeats = [row for row in rows if "repeat" in row]
    unit, name = ("MB", "megabytes") if case.measure == "memory" else ("s", "seconds")
    ours, theirs = (np.array([r[side][name] for r in repeats]) for side in ("vlrft", "trl"))
    ratios = ours / theirs if case.measure == "memory" else theirs / ours
    goal = _goal(case, found)
    gate = gates[-1]["gate"] if gates else {}
    wrong = [m for row in gates for m in row["mistakes"]] if gates else ["not reached"]
    if not repeats and not wrong:
        wrong = ["passed, but nothing was measured"]
    cells = [
        case.name,
        f"{case.what}: P {gate.get('prompt_tokens')}, G {case.group}, {case.prompts} prompts, TRL by {key[4]}",
        "; ".join(wrong) or _gate(gate),
        *("void" if wrong else f"{_spread(v)} {unit}" for v in (ours, theirs)),
        "void" if wrong else _spread(ratios),
        _told(goal, case),
        "void" if wrong else _verdict(float(np.median(ratios)), goal, case),
    ]
    return f"| {' | '.join(cells)} |"


def _gate(figures: Row) -> str:
    return f"{figures['gradient_gap']:.1e}" if "gradient_gap" in figures else "greedy ids equal"


def _spread(values: Any) -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    digits = 0 if middle >= 100 else 2
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}] ({len(values)})"


def _goal(case: Case, found: dict[tuple[Any, ...], list[Row]]) -> float | None:
    """In TRL / vlrft, or for memory vlrft / TRL; None: what it is measured by is not there."""
    if case.times_of is None:
        return case.goal
    for key, rows in found.items():
        if key[0] == case.times_of:
            own = [r["trl"]["seconds"] / r["vlrft"]["seconds"] for r in rows if "repeat" in r]
            return case.goal * float(np.median(own)) if own else None
    return None


def _told(goal: float | None, case: Case) -> str:
    sign = "≤" if case.measure == "memory" else "≥"
    origin = f" ({case.goal:g} × {case.times_of})" if case.times_of else ""
    return f"{sign} {'?' if goal is None else f'{goal:.3g}'}{origin}"


def _verdict(ratio: float, goal: float | None, case: Case) -> str:
    if goal is None:
        return f"needs {case.times_of}"
    met = ratio <= goal if case.measure == "memory" else ratio >= goal
    return "met" if met else "**missed**"
