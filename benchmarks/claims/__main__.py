"""The papers' claims at small scale: GPG's table 15, GMPO's stability, GVPO's terms and stored rollouts, CW-GRPO's entropy.

    python -m benchmarks.claims --out runs/claims [--only gpg …] [--seeds 0 1 2 3 4] [--sweep ARM …] [--jobs 1]

A small transformer learns to write digits in the order that the prompt asks for (text_task.py); every loss is
`vlrft.algorithms.policy_loss` with its published settings. The arms of a comparison share seeds, warm-up, the number of
sampled rollouts and the learning rate. Exceptions: `D_steps` samples more rollouts; in the arms with stored rollouts these
replace sampled ones. The learning rate is the best of RATES for the comparison's first arm on seed 100, which is used for
nothing else (`gmpo_fast`: five times the rate of `gmpo`); `--sweep` tries further arms on that seed, for a table only.
Adam, no gradient clipping, no schedule. Finished runs are not repeated. Writes rows.jsonl into --out;
`python -m benchmarks.claims.report` makes claims.md and a picture of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from benchmarks.claims.arms import COMPARISONS, FASTER, RATES, SWEEP_SEED, Arm
from benchmarks.claims.run_stats import final
from benchmarks.claims.text_task import warm_up
from benchmarks.claims.train import train

Job = tuple[str, Arm, float, int]  # comparison, arm, learning rate, seed


def run(job: Job, out: Path) -> dict[str, Any]:
    """Train, unless the run's file exists already, and return the row of the run."""
    comparison, arm, rate, seed = job
    file = out / f"{comparison}_{arm.name}_{rate:g}_{seed}.json".replace(" ", "_")
    if not file.exists():
        torch.set_num_threads(1)
        start = time.perf_counter()
        result = train(arm, rate, seed, load_file(out / f"warm_{seed}.safetensors"))
        head = {"comparison": comparison, "arm": arm.name, "rate": rate, "seed": seed}
        result = head | {"seconds": time.perf_counter() - start} | result
        result["versions"] = {"python": platform.python_version(), "torch": torch.__version__}
        result["machine"] = {"processor": platform.machine(), "cores": os.cpu_count()}
        short = json.loads(json.dumps(result), parse_float=lambda x: float(f"{float(x):.4g}"))
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps(short))
        unfinished.rename(file)
    row: dict[str, Any] = json.loads(file.read_text())
    return row


def best_rates(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The rate of each comparison: the best one of its first arm in the sweep, or a multiple of another comparison's."""
    best = dict[str, float]()
    for name, declared in COMPARISONS.items():
        sweep = [r for r in rows if (r["comparison"], r["arm"]) == (name, declared[0].name)]
        if name in FASTER:
            source, factor = FASTER[name]
            best[name] = factor * best[source]
        else:
            best[name] = max(sweep, key=final)["rate"]
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=list(COMPARISONS), default=list(COMPARISONS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument(
        "--sweep", nargs="+", default=[], metavar="ARM", help="further arms to try at all rates"
    )
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for seed in (SWEEP_SEED, *args.seeds):
        weights = args.out / f"warm_{seed}.safetensors"
        if not weights.exists():
            save_file(warm_up(seed).state_dict(), weights)
    run_job = partial(run, out=args.out)
    with ProcessPoolExecutor(args.jobs) as pool:
        sweep = [
            (n, arm, rate, SWEEP_SEED)
            for n, declared in COMPARISONS.items()
            for i, arm in enumerate(declared)
            for rate in RATES
            if n not in FASTER and (i == 0 or arm.name in args.sweep)
        ]
        rows = list(pool.map(run_job, sweep))
        best = best_rates(rows)
        print(best, flush=True)
        for seed in args.seeds:
            rows += pool.map(
                run_job, [(n, a, best[n], seed) for n in args.only for a in COMPARISONS[n]]
            )
            (args.out / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
            print("seed", seed, flush=True)


if __name__ == "__main__":
    main()
