"""The page of the runs: `python -m benchmarks.systems.report [ROWS] [PAGE]`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.records import Records, Row
from benchmarks.systems.arms import (
    AGAIN,
    ARMS,
    FEW,
    HELD_OUT,
    PROMPTS,
    RATE,
    ROLLOUT,
    STEPS,
    digest_of,
)
from benchmarks.systems.rows import GRPO, left_out, run_here
from vlrft.config.systems import System
from vlrft.evaluation.bootstrap import bootstrap

RESULTS = Path(__file__).parents[1] / "results"
SEEDS = 5
"""Fewer, and there is no verdict."""
HEAD = """# Published systems on one small problem

Written by `python -m benchmarks.systems.report` from `{rows}`; the runs are made by `python -m benchmarks.systems`, each by `vlrft train`
with the system's own row of the catalogue: {systems} systems, {runs} runs on one CPU thread.

**What this is.** A text policy of 58,000 weights is asked for two digits in one of four orders (the problem of `benchmarks.claims`,
shorter). Its warm-up taught it to copy the digits more often than to do what is asked; rewards can turn that round. All systems of a
seed start from the same policy and see {steps} steps of {prompts} prompts × {group} answers, at a learning rate of {rate:g} (the best of
5e-4, 1e-3 and 2e-3 for GRPO on two other seeds), unless the row itself says otherwise: *tokens* shows what a system sampled. The *control* is the same run with its rewards
permuted within each group (with groups of one: among these), so that nothing can be learned from them.

**How to read it.** Accuracy is greedy, on {held_out} held-out questions, in percent; intervals are 95 % bootstrap intervals of the mean over seeds,
differences are paired by seed. A system is *better* or *worse* than GRPO when the interval and every seed lie on one side of 0,
otherwise *not distinguishable*; it *learns* when it ends above its start and above its control in the same sense: permuted rewards may also ruin a policy, and a method that reads no rewards has a control equal to itself. Trained tokens are those of prompts and completions. Five seeds agree by chance once in
sixteen times, so of forty systems that do not differ from GRPO two or three are called better or worse. A system marked *same runs* has the
accuracies and the numbers of tokens of another one, run by run: its own part finds nothing to do here, or says the same. No prompt comes twice
in {steps} steps, so that methods that remember prompts or store their rollouts have nothing to go by: a second table has these where prompts come again; a row may
say no more than the algorithm that its paper starts from, or weight the same rewards in the same way. This says how the systems
compare here and with these settings: on a task of seconds, at one learning rate. It says nothing about their papers' results.
"""


AGAIN_HEAD = """## Where prompts come again

As above, but with {few} prompts in all (`python -m benchmarks.systems --again`): each comes {visits} times. Systems that remember prompts, and GRPO
and GPG, which they extend.
"""
COLUMNS = (
    "| system | final accuracy | minus its start | minus its control | | minus GRPO | verdict | CPU s | sampled tokens, k | trained tokens, k |",
    "| --- | ---: | ---: | ---: | --- | ---: | --- | ---: | ---: | ---: |",
)


def spread(values: list[float]) -> str:
    """Mean and interval of differences in percent."""
    low, high = bootstrap(values)
    return f"{100 * fmean(values):+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def side(values: list[float]) -> int:
    """1 or -1 when the interval and every value lie above or below 0, otherwise 0."""
    low, high = bootstrap(values)
    if min(low, *values) > 0:
        return 1
    return -1 if max(high, *values) < 0 else 0


def finals(rows: list[Row], system: int, arm: str) -> dict[int, float]:
    """Seed -> final accuracy, of the newest row of each."""
    return {r["seed"]: r["final"] for r in rows if (r["system"], r["arm"]) == (system, arm)}


def differences(one: dict[int, float], other: dict[int, float]) -> list[float]:
    return [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]


def outcomes(rows: list[Row], system: int) -> frozenset[tuple[Any, ...]]:
    """All that was measured in a system's runs but seconds."""
    names = ("arm", "seed", "start", "final", "sampled", "trained")
    return frozenset(tuple(r[n] for n in names) for r in rows if r["system"] == system)


def first_with_same_runs(system: int, systems: Iterable[int], rows: list[Row]) -> int | None:
    """The first of the systems, this one left out, with the same outcomes."""
    own = outcomes(rows, system)
    return next((s for s in systems if s != system and outcomes(rows, s) == own), None)


def line(system: System, rows: list[Row], earlier: Iterable[int]) -> str | None:
    """The table's line of a system; None before it was run on enough seeds. `earlier`: the systems above it."""
    own, control = finals(rows, system.id, "rewards"), finals(rows, system.id, "permuted")
    over_control = differences(own, control)
    over_grpo = differences(own, finals(rows, GRPO, "rewards"))
    over_start = [
        r["final"] - r["start"] for r in rows if (r["system"], r["arm"]) == (system.id, "rewards")
    ]
    if min(len(over_control), len(over_grpo)) < SEEDS:
        return None
    mine = [r for r in rows if (r["system"], r["arm"]) == (system.id, "rewards")]
    low, high = bootstrap(list(own.values()))
    verdict = {1: "better", -1: "worse", 0: "not distinguishable"}[side(over_grpo)]
    if (same := first_with_same_runs(system.id, earlier, rows)) is not None:
        verdict = f"same runs as {same}"
    cells = [
        f"{system.id} {system.name}" + ("" if system.status == "works" else " (part)"),
        f"{100 * fmean(own.values()):.1f} [{100 * low:.1f}, {100 * high:.1f}]",
        spread(over_start),
        spread(over_control),
        "learns" if side(over_control) > 0 and side(over_start) > 0 else "**not shown to learn**",
        "" if system.id == GRPO else spread(over_grpo),
        "" if system.id == GRPO else f"**{verdict}**",
        f"{fmean(r['seconds'] for r in mine):.1f}",
        f"{fmean(r['sampled'] for r in mine) / 1000:.0f}",
        f"{fmean(r['trained'] for r in mine) / 1000:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def table(systems: Iterable[System], rows: list[Row]) -> dict[int, str]:
    """The lines of the systems that were run on enough seeds."""
    lines: dict[int, str] = {}
    for system in systems:
        if written := line(system, rows, tuple(lines)):
            lines[system.id] = written
    return lines


def page(rows: list[Row], name: str) -> str:
    """The page's Markdown, of the newest row of each run whose config is the system's own as it is now."""
    systems = run_here()
    known = {system.id: system for system in systems}
    present = [
        r
        for r in rows
        if (system := known.get(r["system"]))
        and r["config"] == digest_of(system, r["arm"], r["seed"])
    ]
    newest = list({(r["system"], r["arm"], r["seed"]): r for r in present}.values())
    rows = [r for r in newest if r["arm"] in ARMS]
    lines = table(systems, rows)
    again = table(systems, [{**r, "arm": AGAIN[r["arm"]]} for r in newest if r["arm"] in AGAIN])
    starts = [r["start"] for r in rows if r["arm"] == "rewards" and r["system"] == GRPO]
    parts = [
        HEAD.format(
            rows=name,
            systems=len(lines),
            runs=len(rows),
            steps=STEPS,
            prompts=PROMPTS,
            group=ROLLOUT["group_size"],
            rate=RATE,
            held_out=HELD_OUT,
        ),
        f"All start at {100 * fmean(starts):.1f} (mean of the seeds).\n" if starts else "",
        *COLUMNS,
        *lines.values(),
        "",
    ]
    if again:
        visits = STEPS * PROMPTS // FEW
        parts += [AGAIN_HEAD.format(few=FEW, visits=visits), *COLUMNS, *again.values(), ""]
    if waiting := [f"{s.id} {s.name}" for s in systems if s.id not in lines]:
        parts.append(f"Not run yet on {SEEDS} seeds: {', '.join(waiting)}.\n")
    parts.append("Left out, though they run:\n")
    for why, others in left_out().items():
        parts.append(f"- {why}: {', '.join(f'{s.id} {s.name}' for s in others)}")
    return "\n".join(parts) + "\n"


def main() -> None:
    rows = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS / "systems.jsonl"
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else RESULTS / "systems.md"
    out.write_text(page(Records(rows).rows, rows.name), encoding="utf-8")


if __name__ == "__main__":
    main()
