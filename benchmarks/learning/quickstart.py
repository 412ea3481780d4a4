"""Accuracy that RL adds in the quickstart, over seeds and model families, and in controls with permuted rewards.

    python -m benchmarks.learning quickstart --out runs/benchmark [--jobs 2] [--seeds 0 1 2] [--config configs/quickstart.yaml]

A control is the same run with rewards permuted within each group (`permute_rewards=true`): it must not learn. Finished
runs are not repeated, and one that was stopped begins again. Prints a table and writes it, with 95 % intervals of the paired gains,
versions and machine, to --results as CONFIG_FAMILIES.md and .json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.learning.runs import train_once
from vlrft.evaluation.bootstrap import paired_gain

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run of the table."""

    family: str
    seed: int
    control: bool

    @property
    def name(self) -> str:
        return f"{self.family}_seed{self.seed}{'_control' if self.control else ''}"


def train(case: Case, config: str, out: Path, threads: int) -> Path:
    """The run's folder; trains unless the run is complete."""
    changed = [f"policy.build.family={case.family}", f"seed={case.seed}"]
    changed += [f"permute_rewards={str(case.control).lower()}"]
    return train_once(config, changed, out / case.name, threads=threads)


def make_row(case: Case, run: Path) -> dict[str, Any]:
    """Scores in percent at the start, after warm-up and at the end; what RL adds to each metric, with its interval."""
    summary = json.loads((run / "summary.json").read_text())
    evals = {e["stage"]: e for e in summary["evals"]}  # the last of each stage
    lines = (json.loads(line) for line in (run / "values.jsonl").open())
    warm, last = list({line["stage"]: line["values"] for line in lines}.values())[-2:]
    gains = {name: paired_gain(warm[name], last[name]) for name in last}
    return {
        "family": case.family,
        "seed": case.seed,
        "control": case.control,
        "stages": {
            s: {k: 100 * v["score"] for k, v in e["scores"].items()} for s, e in evals.items()
        },
        "gains": {k: [100 * v for v in (gain, *ends)] for k, (gain, ends) in gains.items()},
        "n": {k: v["n"] for k, v in summary["evals"][-1]["scores"].items()},
        "seconds": summary["seconds"],
        "versions": summary["versions"],
    }


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A line per run, and mean and standard deviation of the gains of each family."""
    first, last = list(rows[0]["stages"])[-2:]
    numbers: dict[str, int] = rows[0]["n"]
    columns = [f"{name} ({n}): {first} → {last}, paired gain" for name, n in numbers.items()]
    lines = [
        f"| {' | '.join(['family', 'seed', 'rewards', *columns, 's'])} |",
        f"|{' --- |' * (len(columns) + 4)}",
    ]
    gains: dict[tuple[str, str, str], list[float]] = {}
    for r in rows:
        kind = "permuted" if r["control"] else "real"
        cells = [r["family"], str(r["seed"]), kind]
        for name in numbers:
            gain, low, high = r["gains"][name]
            gains.setdefault((r["family"], kind, name), []).append(gain)
            before, after = r["stages"][first][name], r["stages"][last][name]
            cells.append(
                f"{before:.1f} → {after:.1f}, {gain:+.1f} [{low:+.1f}, {high:+.1f}]",
            )
        lines.append(f"| {' | '.join([*cells, format(r['seconds']['total'], '.0f')])} |")
    lines.append("")
    for (family, kind, name), values in gains.items():
        spread = f", std {stdev(values):.1f}" if len(values) > 1 else ""
        seeds = f"{len(values)} seed{'s' * (len(values) > 1)}"
        lines.append(f"- {family}, {kind} rewards, {name}: {mean(values):+.1f}{spread}, {seeds}")
    return lines


def write_results(rows: Sequence[dict[str, Any]], path: Path, command: str, threads: int) -> None:
    """Prints the table, and writes it and the rows beside the machine and the versions. `path`: without its suffix."""
    report = table(rows)
    print("\n".join(report))
    command = f"python -m benchmarks.learning {command}"
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "threads_per_run": threads}
    versions = ", ".join(f"{name} {version}" for name, version in rows[0]["versions"].items())
    page = [
        f"# RL after a warm-up: {path.name}",
        "",
        f"`{command}`: scores in percent on held-out samples, before and after RL; 95 % intervals.",
        "",
        *report,
        "",
        f"{versions}; {platform.machine()}, {os.cpu_count()} cores, threads of a run: {threads}; "
        f"{datetime.now(timezone.utc).date().isoformat()}.",
    ]
    path.with_suffix(".md").write_text("\n".join(page) + "\n")
    content = {"command": command, "machine": machine, "rows": rows}
    path.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", default="configs/quickstart.yaml")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--control-seeds", type=int, nargs="*", help="default: those of --seeds")
    parser.add_argument("--families", nargs="+", default=["qwen2_vl", "qwen2_5_vl"])
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    controls = args.seeds if args.control_seeds is None else args.control_seeds
    cases = [
        Case(family=family, seed=seed, control=control)
        for family in args.families
        for control, seeds in ((False, args.seeds), (True, controls))
        for seed in seeds
    ]
    threads = max((os.cpu_count() or 1) // args.jobs, 1)
    with ThreadPoolExecutor(args.jobs) as pool:
        runs = list(pool.map(lambda c: train(c, args.config, args.out, threads), cases))
    rows = [make_row(case, run) for case, run in zip(cases, runs, strict=True)]
    name = "_".join([Path(args.config).stem, *args.families])
    command = " ".join(["quickstart", *sys.argv[1:]])
    write_results(rows, args.results / name, command, threads)


if __name__ == "__main__":
    main()
