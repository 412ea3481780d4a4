"""Runs of one config on different numbers of ranks, side by side: their first rollouts, their figures, their curves.

    python -m benchmarks.ranks.curves RUN=LABEL [RUN=LABEL …] [--since STEP] [--picture FILE.svg]

The first run is what the others are compared with. Prints, a row a run: the relative difference of the loss, at the first
step, the largest of ten steps and of all, counted from STEP; the first step with sampling of which a rollout differs, and
how many rollouts are the same token by token (of those that log.groups_per_step keeps); the mean reward of the first ten
and the last twenty steps with sampling; the evaluations. Draws the running mean of the rewards.
"""

from __future__ import annotations

import argparse
import json
import math
from operator import eq
from pathlib import Path
from statistics import fmean
from typing import Any

from vlrft.reporting.html.charts import running_mean

WIDTH, HEIGHT, EDGE = 640, 300, 40
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


def rows(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


def sampled(run: Path) -> dict[int, list[tuple[str, str]]]:
    """Step -> its completions with their samples, in order."""
    found: dict[int, list[tuple[str, str]]] = {}
    for row in rows(run, "rollouts.jsonl"):
        if row["origin"] == "fresh":
            found.setdefault(row["step"], []).append((row["id"], row["completion"]))
    return found


def rewards(run: Path) -> list[tuple[int, float]]:
    found = rows(run, "metrics.jsonl")
    return [(row["step"], row["reward/mean"]) for row in found if "reward/mean" in row]


def compared(run: Path, base: Path, since: int) -> list[str]:
    """The cells of a row."""
    own, other = rows(run, "metrics.jsonl"), rows(base, "metrics.jsonl")
    pairs = [(a, b) for a, b in zip(own, other, strict=True) if b["step"] >= since]
    gaps = [abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in pairs if b["loss"]]
    mine, theirs = sampled(run), sampled(base)
    same = {step: sum(map(eq, mine[step], said)) for step, said in theirs.items()}
    other_from = next((step for step, n in same.items() if n < len(theirs[step])), None)
    curve = [value for _, value in rewards(run)]
    evals = json.loads((run / "summary.json").read_text())["evals"]
    scores = {
        k: [f"{100 * e['scores'][k]['score']:.1f}" for e in evals] for k in evals[-1]["scores"]
    }
    return [
        f"{gaps[0]:.1e}, {max(gaps[:10]):.1e}, {max(gaps):.1e}",
        "never" if other_from is None else f"step {other_from}",
        f"{sum(same.values())}/{sum(map(len, theirs.values()))}",
        f"{fmean(curve[:10]):.3f} → {fmean(curve[-20:]):.3f}",
        "; ".join(f"{kind} {' → '.join(found)}" for kind, found in scores.items()),
    ]


def picture(runs: dict[str, Path]) -> str:
    """The running means of the rewards, a line a run."""
    curves = {label: rewards(run) for label, run in runs.items()}
    smooth = {label: running_mean([value for _, value in c]) for label, c in curves.items()}
    steps = [step for curve in curves.values() for step, _ in curve]
    low, high = min(steps), max(max(steps), min(steps) + 1)
    least = math.floor(10 * min(min(values) for values in smooth.values())) / 10

    def at(step: float, value: float) -> tuple[float, float]:
        across = EDGE + (step - low) / (high - low) * (WIDTH - 2 * EDGE)
        return across, HEIGHT - EDGE - (value - least) / (1 - least) * (HEIGHT - 2 * EDGE)

    def words(x: float, y: float, text: object, colour: str = "#333") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" fill="{colour}">{text}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        words(EDGE, EDGE - 16, "mean reward of a step's rollouts, running mean"),
        words(WIDTH / 2, HEIGHT - 8, "step"),
    ]
    for tenth in range(round(10 * least), 11):
        x, y = at(low, tenth / 10)
        parts.append(f'<path d="M{x:.1f},{y:.1f}H{WIDTH - EDGE}" stroke="#ddd"/>')
        parts.append(words(12, y + 4, tenth / 10))
    for step in (low, high):
        parts.append(words(at(step, 0)[0] - 8, HEIGHT - EDGE + 16, step))
    for k, (label, curve) in enumerate(curves.items()):
        places = [at(step, v) for (step, _), v in zip(curve, smooth[label], strict=True)]
        line = "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
        colour = COLOURS[k % len(COLOURS)]
        dashes = f' stroke-dasharray="{6 * k} {6 * k}"' if k else ""  # equal lines stay seen
        parts.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        parts.append(words(EDGE + 10, EDGE + 14 * (k + 1), label, colour))
    return "".join([*parts, "</svg>"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN=LABEL")
    parser.add_argument("--since", type=int, default=1)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    runs = {label: Path(run) for run, _, label in (item.partition("=") for item in args.runs)}
    base = next(iter(runs.values()))
    print("| ranks | Δ loss | a rollout differs from | same rollouts | reward | evaluations |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for label, run in runs.items():
        print(f"| {label} | {' | '.join(compared(run, base, args.since))} |")
    if args.picture is not None:
        args.picture.write_text(picture(runs))


if __name__ == "__main__":
    main()
