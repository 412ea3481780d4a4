"""Verdicts, tables and the picture of the rows that `python -m benchmarks.claims` wrote.

    python -m benchmarks.claims.report benchmarks/results/claims_2026-11-21.jsonl

Writes claims.md and claims.svg next to the rows; every number and verdict in them is computed from the rows.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import fmean, median

from benchmarks.claims.arms import COMPARISONS, RATES, STEPS, SWEEP_SEED
from benchmarks.claims.picture import TITLES, picture
from benchmarks.claims.run_stats import COLUMNS, METRICS, Row, arms, final
from benchmarks.claims.text_task import LAYERS, LONGEST, ORDERS, SHORTEST, WARM_STEPS, WIDTH
from benchmarks.claims.train import EVERY, GROUP, HELD_OUT, POOL, PROMPTS, STORED
from benchmarks.claims.verdicts import RULE, lines
from vlrft.evaluation.bootstrap import bootstrap


def cell(values: list[float | None]) -> str:
    """Mean [interval], and how many runs lack the metric."""
    present = [v for v in values if v is not None]
    if not present:
        return "never"
    if not any(present):
        return "0"
    low, high = bootstrap(present)
    most = max(map(abs, present))
    digits = 0 if most >= 100 else 1 if most >= 10 else 2 if most >= 1 else 3
    missed = f", {len(values) - len(present)} never" if len(present) < len(values) else ""
    return f"{fmean(present):.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]{missed}"


def table(rows: list[Row], comparison: str) -> list[str]:
    """The metrics of each arm: one line per metric, one column per arm."""
    by_arm = arms(rows, comparison)
    out = ["| metric | " + " | ".join(by_arm) + " |", "| --- " * (len(by_arm) + 1) + "|"]
    for name in COLUMNS[comparison]:
        cells = [cell([METRICS[name](r) for r in by_seed.values()]) for by_seed in by_arm.values()]
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    seconds = [f"{median(r['seconds'] for r in rows.values()):.0f}" for rows in by_arm.values()]
    return [*out, "| seconds per run, median | " + " | ".join(seconds) + " |"]


def sweep(rows: list[Row]) -> list[str]:
    """Final accuracy on the tuning seed for every rate; the best of each arm in bold."""
    out = ["| comparison | arm | " + " | ".join(f"{r:g}" for r in RATES) + " |"]
    out.append("| --- " * (len(RATES) + 2) + "|")
    tried = [r for r in rows if r["seed"] == SWEEP_SEED]
    for comparison, declared in COMPARISONS.items():
        for arm in declared:
            by_rate = {
                r["rate"]: 100 * final(r)
                for r in tried
                if (r["comparison"], r["arm"]) == (comparison, arm.name)
            }
            if by_rate:
                best = max(by_rate, key=lambda rate: by_rate[rate])
                marks = {r: "**" if r == best else "" for r in by_rate}
                cells = [
                    f"{marks[r]}{by_rate[r]:.1f}{marks[r]}" if r in by_rate else "" for r in RATES
                ]
                out.append(f"| {comparison} | {arm.name} | " + " | ".join(cells) + " |")
    return out


def seeds_of(rows: list[Row], comparison: str) -> str:
    seeds = {r["seed"] for r in rows if r["comparison"] == comparison}
    return " ".join(map(str, sorted(seeds - {SWEEP_SEED})))


def design(rows: list[Row]) -> str:
    shown = [c for c in COMPARISONS if arms(rows, c)]
    seeds = "; ".join(f"`{c}` {seeds_of(rows, c)}" for c in shown)
    seconds = [r["seconds"] for r in rows]
    machine = ", ".join(sorted({f"{r['machine']['processor']}" for r in rows}))
    versions = sorted(
        {f"torch {r['versions']['torch']}, Python {r['versions']['python']}" for r in rows}
    )
    return f"""\
The policy is a {LAYERS}-layer transformer of width {WIDTH}. A prompt is {SHORTEST} to {LONGEST} digits and one of {len(ORDERS)} \
orders (as given, reversed, ascending, descending); the reward is 1 for the exact answer, else 0. {WARM_STEPS} supervised \
steps on answers in a random order teach it to write all orders, but not which one is asked for; that is left to RL. All arms of a \
seed start from these weights. A step samples {PROMPTS} prompts × {GROUP} rollouts from a pool of {POOL} prompts; a run samples {STEPS} such \
batches (`D_steps` has {STEPS} steps). Where a step has several updates, each is on a part of the step's groups; GVPO makes two passes \
over halves. GPG's arm A divides a group's centred rewards by their standard deviation, B does not, C also scales by α, and D also replaces groups \
whose rewards are equal (β_th); GVPO's terms Var and Cov are those of its loss. Stored rollouts replace a share of a group's rollouts by random ones of the prompt's last {STORED}, from its second visit on. \
Accuracy is greedy, on {HELD_OUT} held-out prompts every {EVERY} batches; *final* is the mean over the last tenth of the run. \
Entropy is that of the sampled tokens' distributions before a step's updates, in nats; log ratios are relative to that policy.

Seeds: {seeds}. Cells are means [95 % bootstrap interval over seeds]. Adam, no schedule, no gradient \
clipping. The learning rate of a comparison is the best one for its first arm on seed {SWEEP_SEED}, by final accuracy (`gmpo_fast`, the \
first and third arm of `gmpo`: five times that of `gmpo`, where clipping is active); no reported arm has a different rate. {len(rows)} runs on one thread, {machine}, {"; ".join(versions)}; wall time: \
median {median(seconds):.0f} s, {min(seconds):.0f} to {max(seconds):.0f} s (other work shared the cores)."""


LIMITS = f"""\
- One small problem, one small policy, answers of 3 to 5 tokens: the papers' statements about long answers cannot be tested here. In \
particular GMPO's mean over a few tokens is not its mean over hundreds.
- Few seeds: the bootstrap over them is optimistic, which is why a verdict also requires every seed to agree; without an effect five seeds agree by chance once in \
16 claims. A verdict gives the sign of a difference; its size is in the table.
- A threshold is reached when the mean of three consecutive evaluations reaches it. The first single evaluation, tried earlier, depends on the grid: D is \
evaluated after every {EVERY} batches that it sampled, and so more often per step than `D_steps`, which is the same run until D's end.
- The rate was chosen for the first arm: an arm with other gradients might do better at another rate (last table: a single seed). Adam removes a constant factor of the loss, so \
of GPG's α only its change over training has an effect.
- Entropy falls as a policy learns: compare it at equal accuracy as well."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path, metavar="FILE.jsonl", help="the rows of the runs")
    source: Path = parser.parse_args().rows
    rows: list[Row] = [json.loads(line) for line in source.read_text().splitlines()]
    parts = [
        "# The papers' claims at small scale",
        "Written by `python -m benchmarks.claims --out runs/claims` (`--only` and `--seeds` select runs) and"
        f" `python -m benchmarks.claims.report benchmarks/results/{source.name}`.",
        design(rows),
        "![final accuracy, a second metric, and a curve of each comparison](claims.svg)",
        "## Verdicts",
        RULE,
    ]
    shown = [c for c in COMPARISONS if arms(rows, c)]
    for comparison in shown:
        parts += [f"### {TITLES[comparison]}", "\n".join(lines(rows, comparison))]
    parts += ["## Limitations", LIMITS, "## Metrics"]
    for comparison in shown:
        parts += [f"### {TITLES[comparison]}", "\n".join(table(rows, comparison))]
    parts += [f"## Learning rates, seed {SWEEP_SEED}: final accuracy", "\n".join(sweep(rows))]
    source.with_name("claims.md").write_text("\n\n".join(parts) + "\n")
    source.with_name("claims.svg").write_text(picture(rows))


if __name__ == "__main__":
    main()
