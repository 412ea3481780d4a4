"""Accuracy that RL adds in the quickstart, over seeds and model families, and in controls with permuted rewards.

    python -m benchmarks.learning quickstart --out runs/benchmark [--jobs 2] [--seeds 0 1 2] [--config configs/quickstart.yaml]

A control is the same run with rewards permuted within each group (`permute_rewards=true`): it must not learn. Finished
runs are not repeated, and one that was stopped begins again. Prints a table and writes it, with 95 % intervals of the paired gains,
versions and machine, to --results as CONFIG_FAMILIES.md and .json.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.learning.outcomes import RESULTS, Case, make_rows, write_results
from benchmarks.learning.runs import train_once


def train(case: Case, config: str, out: Path, threads: int) -> Path:
    """The run's folder; trains unless the run is complete."""
    changed = [f"policy.build.family={case.family}", f"seed={case.seed}"]
    changed += [f"permute_rewards={str(case.control).lower()}"]
    return train_once(config, changed, out / f"{case.family}_{case.name}", threads=threads)


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
    rows = make_rows(dict(zip(cases, runs, strict=True)))
    name = "_".join([Path(args.config).stem, *args.families])
    command = " ".join(["quickstart", *sys.argv[1:]])
    write_results(rows, args.results / name, command, threads)


if __name__ == "__main__":
    main()
