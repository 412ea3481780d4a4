"""Accuracy that RL adds on videos of moving digits, over seeds, and in controls with permuted rewards.

    python -m benchmarks.learning moving --out runs/moving [--seeds 0 1]

The policy of a seed is warmed up once, by the first stage of the config; real and permuted rewards continue from its checkpoint.
Finished runs are not repeated. Writes --results/CONFIG.md and .json.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import yaml

from benchmarks.learning.quickstart import RESULTS, Case, make_row, write_results
from benchmarks.learning.runs import train_once


def warm_up(config: dict[str, Any], seed: int, out: Path, threads: int) -> Path:
    """The folder of a run of the first stage; trains unless it is complete."""
    first = {**config, "stages": config["stages"][:1], "seed": seed}
    return train(first, out / f"warm{seed}", threads)


def learn(config: dict[str, Any], case: Case, warm: Path, out: Path, threads: int) -> Path:
    """The folder of a run of the other stages from the warm-up's checkpoint."""
    policy = {k: v for k, v in config["policy"].items() if k != "build"}
    others = {
        **config,
        "policy": {**policy, "model": str(warm / "checkpoints" / "last")},
        "stages": config["stages"][1:],
        "seed": case.seed,
        "permute_rewards": case.control,
    }
    return train(others, out / case.name, threads)


def train(config: dict[str, Any], run: Path, threads: int) -> Path:
    path = run.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return train_once(path, (), run, threads=threads)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", type=Path, default=Path("configs/digits_moving.yaml"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    config = yaml.safe_load(args.config.read_text())
    family = config["policy"]["build"]["family"]
    rows: list[dict[str, Any]] = []
    for seed in args.seeds:
        warm = warm_up(config, seed, args.out, args.threads)
        for control in (False, True):
            case = Case(family=family, seed=seed, control=control)
            rows.append(make_row(case, learn(config, case, warm, args.out, args.threads)))
    seeds = " ".join(map(str, args.seeds))
    command = f"moving --out {args.out} --seeds {seeds} --threads {args.threads}"
    write_results(rows, args.results / args.config.stem, command, args.threads)


if __name__ == "__main__":
    main()
