"""The page of the rows of vs_trl_DATE.jsonl; every number and verdict on it is computed from them."""

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
TITLES = "case | work | gate: worst gradient | vlrft | TRL | ratio | goal | | peak MB: vlrft | TRL | ratio "
SECONDS = "cpu_seconds"  # of all threads: other work on the machine hardly moves them
KEYS = ("case", "scale", "family", "threads", "trl_rows")


def machine(threads: int) -> Row:
    """The machine and the versions with which the following rows were measured."""
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
    """The top of the page: machines, versions and both sides' settings."""
    lines = ["# vlrft compared with TRL's GRPOTrainer", "", "Written by `python -m benchmarks.vs_trl`; its `--help` says what is measured, and how.", ""]  # fmt: skip
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

    settings = ", ".join(f"{name}={value!r}" for name, value in SETTINGS.items())
    return [
        f"TRL: {settings}, attention {ATTENTION}, no Liger (it needs a GPU). Completions per micro-batch: the fastest of 1, 4, "
        "16 (P6 and P6r: a group, as on vlrft's side; P6s: 1). Off GPUs TRL 1.16 also runs the language-model head over prompts and "
        "discards the result; here it does not, as on GPUs, except in P6r.",
        "",
        "vlrft: `dr_grpo`, which has the same loss, with its defaults and the same AdamW learning rate, weight decay and clipping.",
        "",
        "Cells: median [quartiles] (number) of the repeats; ratios are taken within a repeat. Seconds are processor time of all threads.",
        "Peak memory is that of the measured part, above the level before it, at the row's own settings: vlrft's micro-batches hold as many "
        "groups as its default budget allows (one group in P6 and P6s), TRL's the rows named in the column `work`.",
        "",
        "Neither side samples with vLLM here. On GPUs TRL's users do, so that P4 and P5 say nothing about rollouts there; and TRL's "
        "micro-batches are larger there than the ones that are fastest on this CPU.",
    ]


def page(rows: Sequence[Row]) -> str:
    """One table per scale, family and number of threads, of the cases that occur in the rows."""
    by_case: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if "case" in row:
            by_case.setdefault(tuple(row[k] for k in KEYS), []).append(row)
    settings = dict.fromkeys(key[1:4] for key in by_case)
    parts: list[str] = []
    for scale, family, threads in settings:
        table = {key: v for key, v in by_case.items() if key[1:4] == (scale, family, threads)}
        parts += [f"### {family}, {scale} scale, {threads} threads", "", f"| {TITLES}|", "|---" * 11 + "|"]  # fmt: skip
        order = [case.name for case in CASES]
        parts += [
            _line(table, key) for key in sorted(table, key=lambda k: (order.index(k[0]), k[4]))
        ]
        parts.append("")
    return "\n".join(parts).rstrip()


def _line(by_case: dict[tuple[Any, ...], list[Row]], key: tuple[Any, ...]) -> str:
    case = next(c for c in CASES if c.name == key[0])
    rows = by_case[key]
    gates = [row for row in rows if "gate" in row]
    repeats = [row for row in rows if "repeat" in row]
    unit, name = ("MB", "megabytes") if case.quantity == "memory" else ("s", SECONDS)
    ours, theirs = (np.array([r[side][name] for r in repeats]) for side in ("vlrft", "trl"))
    memory = [np.array([r[side]["megabytes"] for r in repeats]) for side in ("vlrft", "trl")]
    ratios = ours / theirs if case.quantity == "memory" else theirs / ours
    goal = _goal(case, by_case)
    gate = gates[-1]["gate"] if gates else {}
    wrong = [m for row in gates for m in row["mistakes"]] if gates else ["not reached"]
    if not repeats and not wrong:
        wrong = ["passed, but nothing was measured"]
    cells = [
        case.name,
        f"{case.work}: P {gate.get('prompt_tokens')}, G {case.group}, {case.prompts} prompts, TRL by {key[4]}",
        "; ".join(wrong) or _gate(gate),
        *("void" if wrong else f"{_spread(v)} {unit}" for v in (ours, theirs)),
        "void" if wrong else _spread(ratios),
        _goal_text(goal, case),
        "void" if wrong else _verdict(float(np.median(ratios)), goal, case),
        *("void" if wrong else f"{np.median(v):,.0f}" for v in memory),
        "void" if wrong else f"{np.median(memory[0] / memory[1]):.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def _gate(values: Row) -> str:
    return f"{values['gradient_gap']:.1e}" if "gradient_gap" in values else "greedy ids equal"


def _spread(values: Any) -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    digits = 0 if middle >= 100 else 2
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}] ({len(values)})"


def _goal(case: Case, by_case: dict[tuple[Any, ...], list[Row]]) -> float | None:
    """The ratio to reach, TRL / vlrft, for memory vlrft / TRL; None: the case that it refers to has no rows."""
    if case.times_of is None:
        return case.goal
    for key, rows in by_case.items():
        if key[0] == case.times_of:
            ratios = [r["trl"][SECONDS] / r["vlrft"][SECONDS] for r in rows if "repeat" in r]
            return case.goal * float(np.median(ratios)) if ratios else None
    return None


def _goal_text(goal: float | None, case: Case) -> str:
    sign = "≤" if case.quantity == "memory" else "≥"
    origin = f" ({case.goal:g} × {case.times_of})" if case.times_of else ""
    return f"{sign} {'?' if goal is None else f'{goal:.3g}'}{origin}"


def _verdict(ratio: float, goal: float | None, case: Case) -> str:
    if goal is None:
        return f"needs {case.times_of}"
    met = ratio <= goal if case.quantity == "memory" else ratio >= goal
    return "met" if met else "**missed**"
