"""Verdicts, tables and the picture of the rows that claims.py wrote.

    python -m benchmarks.claims.report benchmarks/results/claims_2026-11-21.jsonl

Writes claims.md and claims.svg beside the rows; every number and verdict in them is read from the rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import fmean, median

from benchmarks.claims.__main__ import RATES, SWEEP_SEED, final
from benchmarks.claims.arms import COMPARISONS, STEPS
from benchmarks.claims.picture import TITLES, picture
from benchmarks.claims.run_stats import COLUMNS, FIGURES, Row, arms
from benchmarks.claims.text_task import LAYERS, LONGEST, ORDERS, SHORTEST, WARM_STEPS, WIDTH
from benchmarks.claims.train import EVERY, GROUP, HELD_OUT, POOL, PROMPTS, STORED
from benchmarks.claims.verdicts import RULE, lines
from vlrft.evaluation.bootstrap import bootstrap


def cell(values: list[float | None]) -> str:
    """Mean [interval], and how many runs lack the figure."""
    got = [v for v in values if v is not None]
    if not got:
        return "never"
    if not any(got):
        return "0"
    low, high = bootstrap(got)
    most = max(map(abs, got))
    digits = 0 if most >= 100 else 1 if most >= 10 else 2 if most >= 1 else 3
    missed = f", {len(values) - len(got)} never" if len(got) < len(values) else ""
    return f"{fmean(got):.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]{missed}"


def table(rows: list[Row], comparison: str) -> list[str]:
    """The figures of each arm; transposed, a column an arm, since the arms are fewer."""
    by_arm = arms(rows, comparison)
    out = ["| figure | " + " | ".join(by_arm) + " |", "| --- " * (len(by_arm) + 1) + "|"]
    for name in COLUMNS[comparison]:
        cells = [cell([FIGURES[name](r) for r in own.values()]) for own in by_arm.values()]
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    counts = [f"{median(r['seconds'] for r in own.values()):.0f}" for own in by_arm.values()]
    return [*out, "| seconds a run, median | " + " | ".join(counts) + " |"]


def sweep(rows: list[Row]) -> list[str]:
    """Final accuracy on the tuning seed by rate; the best of each arm in bold."""
    out = ["| comparison | arm | " + " | ".join(f"{r:g}" for r in RATES) + " |"]
    out.append("| --- " * (len(RATES) + 2) + "|")
    tried = [r for r in rows if r["seed"] == SWEEP_SEED]
    for comparison, declared in COMPARISONS.items():
        for arm in declared:
            own = {
                r["rate"]: 100 * final(r)
                for r in tried
                if (r["comparison"], r["arm"]) == (comparison, arm.name)
            }
            if own:
                best = max(own, key=lambda rate: own[rate])
                marks = {r: "**" if r == best else "" for r in own}
                cells = [f"{marks[r]}{own[r]:.1f}{marks[r]}" if r in own else "" for r in RATES]
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
steps on answers in an order of chance teach it to write all orders, not which is asked for; that is left for RL. All arms of a \
seed begin there. A step samples {PROMPTS} prompts × {GROUP} rollouts from a pool of {POOL} prompts; a run samples {STEPS} such \
batches (`D_steps`: has {STEPS} steps). Several updates a step are one each for a part of the step's groups, in GVPO two passes \
over halves. Stored rollouts replace a share of a group's with random ones of the prompt's last {STORED}, from its second visit on. \
Accuracy is greedy, on {HELD_OUT} held-out prompts every {EVERY} batches; *final* is the mean over the last tenth of the run. \
Entropy is of the sampled tokens' distributions before a step's updates, in nats; log ratios are to that policy.

Seeds: {seeds}. Cells are means [95 % bootstrap interval over seeds]. Adam, no schedule, no gradient \
clipping. The learning rate of a comparison is the best for its first arm on seed {SWEEP_SEED}, by final accuracy (`gmpo_fast`, the \
first and third arm of `gmpo`: five times `gmpo`'s, where clips bind); no reported arm has a rate of its own. {len(rows)} runs on one thread, {machine}, {"; ".join(versions)}; wall time \
is {median(seconds):.0f} s in the median, {min(seconds):.0f} to {max(seconds):.0f} s as other work left the cores."""


LIMITS = f"""\
- One small problem, one small policy, answers of 3 to 5 tokens: what the papers say of long answers is out of reach here. In \
particular GMPO's mean over a few tokens is not its mean over hundreds.
- Few seeds: the bootstrap over them is optimistic, which is why a verdict also asks every seed to agree; five do so by chance once in \
16 claims without an effect. A verdict says which way a difference points, not that it is large: see its size.
- A threshold is reached when the mean of three evaluations in a row is. The first single one was tried before and depends on the grid: D is \
evaluated after every {EVERY} batches that it sampled, and so more often a step than `D_steps`, which is the same run until D's end.
- The rate is the first arm's: an arm with other gradients might do better at another (last table: a single seed). Adam removes a constant factor of the loss, so \
of GPG's α only its change over training is left.
- Entropy falls as a policy learns: compare it at equal accuracy, too."""


def main() -> None:
    source = Path(sys.argv[1])
    rows: list[Row] = [json.loads(line) for line in source.read_text().splitlines()]
    parts = [
        "# The papers' claims at small scale",
        "`python -m benchmarks.claims --out runs/claims` (`--only` and `--seeds` choose), then"
        f" `python -m benchmarks.claims.report {source.name}`, which wrote this page and its picture.",
        design(rows),
        "![final accuracy, a second figure, and a curve of each comparison](claims.svg)",
        "## Verdicts",
        RULE,
    ]
    shown = [c for c in COMPARISONS if arms(rows, c)]
    for comparison in shown:
        parts += [f"### {TITLES[comparison]}", "\n".join(lines(rows, comparison))]
    parts += ["## What limits all of this", LIMITS, "## Figures"]
    for comparison in shown:
        parts += [f"### {TITLES[comparison]}", "\n".join(table(rows, comparison))]
    parts += [f"## Learning rates, seed {SWEEP_SEED}: final accuracy", "\n".join(sweep(rows))]
    source.with_name("claims.md").write_text("\n\n".join(parts) + "\n")
    source.with_name("claims.svg").write_text(picture(rows))


if __name__ == "__main__":
    main()
