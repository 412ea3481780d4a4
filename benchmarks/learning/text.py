"""Accuracy that RL adds to a pretrained model, over seeds, beside equal runs with permuted rewards.

    python -m benchmarks.learning smollm --out runs/smollm2
    python -m benchmarks.learning text --out runs/text [--model runs/smollm2] [--seeds 0 1 2] [--config arithmetic_smollm] [KEY=VALUE …]

One run at a time: seed 0, its control, seed 1, … Finished runs are not repeated, but refused where the arguments ask for
other settings, and one that was stopped is resumed from its last checkpoint. Prints a table of the runs that are whole after
each of them, and writes them to OUT/rows.json; --report runs nothing, and only does that. Gains are paired by question.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.learning.runs import train_once
from vlrft.evaluation.compare import Comparison, compare
from vlrft.reporting.run_evaluations import read_evaluation
from vlrft.reporting.run_folder.names import EVALS, REPORT, SUMMARY

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run of the table."""

    seed: int
    control: bool

    @property
    def name(self) -> str:
        return f"seed{self.seed}{'_control' if self.control else ''}"


def train(case: Case, config: str, settings: Sequence[str], out: Path) -> None:
    """Trains until the run is complete."""
    changed = [f"seed={case.seed}", f"permute_rewards={str(case.control).lower()}"]
    train_once(config, [*changed, *settings], out / case.name, resume=True)


def make_row(case: Case, out: Path) -> Row:
    """Accuracy before and after, the paired gain, and the sampled rewards of a complete run."""
    run = out / case.name
    before, after = (read_evaluation(run / EVALS, step) for step in (0, None))
    summary = json.loads((run / SUMMARY).read_text())
    steps = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    return {
        **asdict(case),
        "comparisons": [asdict(row) for row in compare(before, after, "strict", 1.0)],
        "rewards": [step["reward/mean"] for step in steps],
        "seconds": summary["seconds"],
        "versions": summary["versions"],
    }


def against_control(seed: int, out: Path) -> Comparison:
    """A run's last evaluation against that of its control."""
    cases = [Case(seed=seed, control=control) for control in (True, False)]
    control, real = (read_evaluation(out / case.name / EVALS, None) for case in cases)
    return compare(control, real, "strict", 1.0)[0]


def table(rows: Sequence[Row], out: Path) -> str:
    """A line per run, and one per seed whose control is complete."""
    lines = [
        "| seed | rewards | steps | n | before | after | gain [95 %] | gained, lost | s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        whole = row["comparisons"][0]
        kind = "permuted" if row["control"] else "real"
        lines.append(
            f"| {row['seed']} | {kind} | {len(row['rewards'])} | {whole['n']} | {100 * whole['before']:.1f} "
            f"| {100 * whole['after']:.1f} | {gain(whole['gain'], whole['ci'])} | {whole['gained']}, {whole['lost']} "
            f"| {row['seconds']['total']:.0f} |"
        )
    complete = {(row["seed"], row["control"]) for row in rows}
    for seed in dict.fromkeys(row["seed"] for row in rows):
        if {(seed, True), (seed, False)} <= complete:
            pair = against_control(seed, out)
            lines.append(f"\nseed {seed} against its control: {gain(pair.gain, pair.ci)}")
    return "\n".join(lines)


def gain(value: float, interval: Sequence[float]) -> str:
    low, high = interval
    return f"{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def report(cases: Sequence[Case], out: Path) -> None:
    """Prints and writes the runs that are complete."""
    rows = [make_row(case, out) for case in cases if (out / case.name / REPORT).exists()]
    if not rows:
        print("no run is complete yet")
        return
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "threads": threads}
    (out / "rows.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1))
    print(table(rows, out), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="runs/smollm2")
    parser.add_argument("--config", default="arithmetic_smollm")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--report", action="store_true", help="only report the complete runs")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="settings of all runs")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    cases = [Case(seed=seed, control=control) for seed in args.seeds for control in (False, True)]
    settings = [f"policy.model={args.model}", "save.every=10", *args.settings]
    for case in [] if args.report else cases:
        train(case, args.config, settings, args.out)
        report(cases, args.out)
    if args.report:
        report(cases, args.out)


if __name__ == "__main__":
    main()
