"""Runs of one config on different numbers of ranks: their losses, rollouts, rewards and evaluations, and a picture.

    python -m benchmarks.ranks.curves RUN=LABEL [RUN=LABEL …] [--since STEP] [--picture FILE.svg]

The first run is the one that the others are compared with. Prints a row per run: the relative difference of the loss at
the first step, its maximum over ten steps and over all, counted from STEP; the first step with a different rollout, and
the number of equal completions (of those that log.groups_per_step keeps); the mean reward of the first ten and the last
twenty steps with sampling; the evaluations. --picture draws the running mean of the rewards.
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


def completions_of(run: Path) -> dict[int, list[tuple[str, str]]]:
    """Step -> (sample id, completion) of each rollout, in order."""
    by_step: dict[int, list[tuple[str, str]]] = {}
    for row in rows(run, "rollouts.jsonl"):
        if row["origin"] == "fresh":
            by_step.setdefault(row["step"], []).append((row["id"], row["completion"]))
    return by_step


def rewards(run: Path) -> list[tuple[int, float]]:
    """(step, mean reward) of each step with sampling."""
    metrics = rows(run, "metrics.jsonl")
    return [(row["step"], row["reward/mean"]) for row in metrics if "reward/mean" in row]


def compare(run: Path, base: Path, since: int) -> list[str]:
    """The cells of a row."""
    metrics, base_metrics = rows(run, "metrics.jsonl"), rows(base, "metrics.jsonl")
    pairs = [(a, b) for a, b in zip(metrics, base_metrics, strict=True) if b["step"] >= since]
    gaps = [abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in pairs if b["loss"]]
    completions, expected = completions_of(run), completions_of(base)
    equal = {step: sum(map(eq, completions[step], e)) for step, e in expected.items()}
    differs_from = next((step for step, n in equal.items() if n < len(expected[step])), None)
    curve = [value for _, value in rewards(run)]
    evals = json.loads((run / "summary.json").read_text())["evals"]
    scores = {
        k: [f"{100 * e['scores'][k]['score']:.1f}" for e in evals] for k in evals[-1]["scores"]
    }
    return [
        f"{gaps[0]:.1e}, {max(gaps[:10]):.1e}, {max(gaps):.1e}",
        "never" if differs_from is None else f"step {differs_from}",
        f"{sum(equal.values())}/{sum(map(len, expected.values()))}",
        f"{fmean(curve[:10]):.3f} → {fmean(curve[-20:]):.3f}",
        "; ".join(f"{kind} {' → '.join(values)}" for kind, values in scores.items()),
    ]


def draw(runs: dict[str, Path]) -> str:
    """The running mean of the rewards, a line per run, as SVG."""
    curves = {label: rewards(run) for label, run in runs.items()}
    smooth = {label: running_mean([value for _, value in c]) for label, c in curves.items()}
    steps = [step for curve in curves.values() for step, _ in curve]
    low, high = min(steps), max(max(steps), min(steps) + 1)
    least = math.floor(10 * min(min(values) for values in smooth.values())) / 10

    def at(step: float, value: float) -> tuple[float, float]:
        across = EDGE + (step - low) / (high - low) * (WIDTH - 2 * EDGE)
        return across, HEIGHT - EDGE - (value - least) / (1 - least) * (HEIGHT - 2 * EDGE)

    def text(x: float, y: float, content: object, colour: str = "#333") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" fill="{colour}">{content}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(EDGE, EDGE - 16, "mean reward of a step's rollouts, running mean"),
        text(WIDTH / 2, HEIGHT - 8, "step"),
    ]
    for tenth in range(round(10 * least), 11):
        x, y = at(low, tenth / 10)
        parts.append(f'<path d="M{x:.1f},{y:.1f}H{WIDTH - EDGE}" stroke="#ddd"/>')
        parts.append(text(12, y + 4, tenth / 10))
    for step in (low, high):
        parts.append(text(at(step, 0)[0] - 8, HEIGHT - EDGE + 16, step))
    for k, (label, curve) in enumerate(curves.items()):
        places = [at(step, v) for (step, _), v in zip(curve, smooth[label], strict=True)]
        line = "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
        colour = COLOURS[k % len(COLOURS)]
        dashes = f' stroke-dasharray="{6 * k} {6 * k}"' if k else ""  # equal lines stay visible
        parts.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        parts.append(text(EDGE + 10, EDGE + 14 * (k + 1), label, colour))
    return "".join([*parts, "</svg>"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN=LABEL")
    parser.add_argument("--since", type=int, default=1)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    runs = {label: Path(run) for run, _, label in (item.partition("=") for item in args.runs)}
    base = next(iter(runs.values()))
    print("| ranks | Δ loss | first different rollout | equal rollouts | reward | evaluations |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for label, run in runs.items():
        print(f"| {label} | {' | '.join(compare(run, base, args.since))} |")
    if args.picture is not None:
        args.picture.write_text(draw(runs))


if __name__ == "__main__":
    main()
