"""Accuracy that RL adds in the quickstart, over seeds and model families, and in controls with permuted rewards.

    python -m benchmarks.learning quickstart --out runs/benchmark [--jobs 2] [--seeds 0 1 2] [--config configs/quickstart.yaml]

A control is the same run with rewards permuted within each group (`permute_rewards=true`): it must not learn. Finished
runs are not repeated. Prints a table and writes rows.json (raw results, versions, machine) to --out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run of the table."""

    family: str
    seed: int
    control: bool

    @property
    def name(self) -> str:
        return f"{self.family}_seed{self.seed}{'_control' if self.control else ''}"


def train(case: Case, config: str, out: Path, threads: int) -> dict[str, Any]:
    """The run's summary; trains unless the run is complete."""
    run = out / case.name
    if not (run / "report.html").exists():
        command = [sys.executable, "-m", "vlrft", "train", config, "--out", str(run), "--overwrite"]
        command += [f"policy.build.family={case.family}", f"seed={case.seed}"]
        command += [f"permute_rewards={str(case.control).lower()}"]
        env = os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
        with (out / f"{case.name}.txt").open("w") as log:
            subprocess.run(command, check=True, env=env, stdout=log, stderr=log)
    summary: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return summary


def make_row(case: Case, summary: dict[str, Any]) -> dict[str, Any]:
    """Scores in percent at the start, after warm-up and at the end."""
    evals = {e["stage"]: e for e in summary["evals"]}  # the last of each stage
    stages = {s: {k: 100 * v["score"] for k, v in e["scores"].items()} for s, e in evals.items()}
    counts = {k: v["n"] for k, v in summary["evals"][-1]["scores"].items()}
    return {
        "family": case.family,
        "seed": case.seed,
        "control": case.control,
        "stages": stages,
        "n": counts,
        "seconds": summary["seconds"],
        "versions": summary["versions"],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """A line per run, and mean and standard deviation of the gains of each family."""
    first, last = list(rows[0]["stages"])[-2:]
    names = list(rows[0]["n"])
    lines = [
        f"{'family':12s} seed {'rewards':9s} seconds  "
        + "  ".join(f"{n}: {first} -> {last}" for n in names)
    ]
    gains: dict[tuple[str, bool, str], list[float]] = {}
    for r in rows:
        kind = "permuted" if r["control"] else "real"
        cells = []
        for n in names:
            before, after = r["stages"][first][n], r["stages"][last][n]
            gains.setdefault((r["family"], r["control"], n), []).append(after - before)
            cells.append(f"{before:5.1f} -> {after:5.1f} ({after - before:+.1f})")
        lines.append(
            f"{r['family']:12s} {r['seed']:4d} {kind:9s} {r['seconds']['total']:7.0f}  "
            + "  ".join(cells)
        )
    for (family, control, n), values in gains.items():
        spread = stdev(values) if len(values) > 1 else 0.0
        kind = "permuted" if control else "real"
        lines.append(
            f"{family} {kind} {n}: mean gain {mean(values):+.1f}, std {spread:.1f}, {len(values)} seeds"
        )
    return "\n".join(lines)


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
        summaries = list(pool.map(lambda c: train(c, args.config, args.out, threads), cases))
    rows = [make_row(c, s) for c, s in zip(cases, summaries, strict=True)]
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "threads_per_run": threads}
    (args.out / "rows.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1))
    print(table(rows))


if __name__ == "__main__":
    main()
