"""Two headline claims on a pretrained policy, SmolLM2-135M: GPG is better than GRPO, and GMPO is where a batch is used for several updates.

    python -m benchmarks.claims.smollm --model runs/smollm2 --out runs/claims_smollm [--seeds 200 … 209] [--jobs 1] [--report]

Each run is `vlrft train arithmetic_smollm` with the arm's algorithm and 40 steps of 16 x 8 rollouts. No arm has a KL penalty, and all
groups are kept. The learning rate of a contrast is the one of RATES with the best mean of its two arms on seed 100, which is used for
nothing else. Finished runs are not repeated. Writes smollm.jsonl and smollm.md into --out; --report only these.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from benchmarks.claims.contrast_tests import find_outcome, smallest_difference
from benchmarks.claims.contrasts import SEEDS, Contrast, accuracies, table
from benchmarks.learning.outcomes import count_rollouts
from benchmarks.learning.runs import train_once
from vlrft.reporting.run_folder.names import CHECKPOINTS, SUMMARY

PILOT = Path(__file__).parents[1] / "results/arithmetic_smollm.json"
RATES, PILOT_SEED = (2e-6, 5e-6, 1e-5), 100
STEPS, PROMPTS = 40, 16
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """An algorithm, as overrides of a config, and the updates for each batch of rollouts."""

    algorithm: str
    updates: int


ARMS = {
    "gpg": Arm(algorithm="{name: gpg, keep: all}", updates=1),
    "grpo": Arm(algorithm="{name: grpo, regularize: {kl: 0}}", updates=1),
    "gmpo, 8 updates": Arm(algorithm="{name: gmpo}", updates=8),
    "grpo, 8 updates": Arm(algorithm="{name: grpo, regularize: {kl: 0}}", updates=8),
}
CONTRASTS = (
    Contrast(claim="GPG is better than GRPO", comparison="1", arm="gpg", than="grpo"),
    Contrast(claim="GMPO is better than GRPO", comparison="8", arm="gmpo, 8 updates", than="grpo, 8 updates"),
)  # fmt: skip
Job = tuple[str, str, float, int]  # comparison, arm, learning rate, seed


def run(job: Job, model: str, out: Path) -> Row:
    """The row of a run, which is trained unless it is finished. Its weights are not kept."""
    comparison, name, rate, seed = job
    arm = ARMS[name]
    update = f"{{lr: {rate:.1e}, warmup_steps: 5, updates_per_batch: {arm.updates}}}"
    settings = (
        f"seed={seed}",
        f"policy.model={model}",
        f"algorithm={arm.algorithm}",
        f"stages=[{{steps: {STEPS}, prompts_per_step: {PROMPTS}, update: {update}}}]",
    )
    folder = out / f"{name}_{rate:g}_{seed}".replace(", ", "_").replace(" ", "_")
    train_once("arithmetic_smollm", settings, folder, threads=1)
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    summary = json.loads((folder / SUMMARY).read_text())
    before, after = (summary["evals"][k]["scores"]["accuracy"]["score"] for k in (0, -1))
    return {
        "comparison": comparison,
        "arm": name,
        "rate": rate,
        "seed": seed,
        "flips": 0.0,
        "before": before,
        "final": after,
        "rollouts": count_rollouts(folder),
        "seconds": round(summary["seconds"]["total"], 1),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "versions": summary["versions"],
    }


def best_rates(rows: Sequence[Row]) -> dict[str, float]:
    """The rate of each comparison with the best mean of both arms on the pilot's seed."""
    found = dict[str, float]()
    for comparison in (c.comparison for c in CONTRASTS):
        pilot = [r for r in rows if r["comparison"] == comparison and r["seed"] == PILOT_SEED]
        found[comparison] = max(RATES, key=lambda rate: fmean(r["final"] for r in pilot if r["rate"] == rate))  # fmt: skip
    return found


def page(rows: Sequence[Row]) -> str:
    """What was stated beforehand, the pilot, and the outcomes."""
    seeds = [row["stages"]["gpg"]["accuracy"] for row in json.loads(PILOT.read_text())["rows"] if not row["control"]]  # fmt: skip
    spread = 2**0.5 * stdev(seeds)
    least = smallest_difference(spread, len(SEEDS), 0.05 / len(CONTRASTS))
    rates = best_rates(rows)
    outcomes = [find_outcome(accuracies(_main(rows), c, 0.0)) for c in CONTRASTS]
    lines = [
        "# Two claims on SmolLM2-135M",
        "",
        "`python -m benchmarks.claims.smollm`: accuracy, in points, on 228 held-out questions of `arithmetic` after 40 steps of 16 × 8 rollouts, of two",
        "arms with the same seed. Paired t-tests, two-sided, with Holm's correction: a claim is *supported* where its corrected p is below 0.05 and the",
        "difference has the claimed sign, *contradicted* where it has the other.",
        "",
        f"Stated beforehand: three seeds of GPG differed by {stdev(seeds):.1f} points (standard deviation), two runs of a seed thus by {spread:.1f}; ten seeds find a true",
        f"difference of {least:.1f} points in 8 of 10 cases at the strictest level of the correction.",
        "",
        *table(CONTRASTS, outcomes),
        "",
        *["Not all seeds have been run.", ""] * (min(o.count for o in outcomes) < len(SEEDS)),
        "| arm | learning rate | mean accuracy | lowest | highest |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for contrast in CONTRASTS:
        for name in (contrast.arm, contrast.than):
            finals = [100 * row["final"] for row in _main(rows) if row["arm"] == name]
            if finals:
                lines.append(f"| {name} | {rates[contrast.comparison]:g} | {fmean(finals):.1f} | {min(finals):.1f} | {max(finals):.1f} |")  # fmt: skip
    lines += ["", f"The learning rates were chosen on seed {PILOT_SEED}, accuracy:", "", "| arm |" + "".join(f" {rate:g} |" for rate in RATES), "| --- |" + " ---: |" * len(RATES)]  # fmt: skip
    for name in ARMS:
        pilot = {r["rate"]: 100 * r["final"] for r in rows if r["arm"] == name and r["seed"] == PILOT_SEED}  # fmt: skip
        lines.append(f"| {name} |" + "".join(f" {pilot.get(rate, float('nan')):.1f} |" for rate in RATES))  # fmt: skip
    versions = ", ".join(f"{k} {v}" for k, v in rows[0]["versions"].items())
    seconds = fmean(row["seconds"] for row in rows)
    lines += ["", f"{len(rows)} runs of {rows[0]['rollouts']:,} rollouts, {seconds:.0f} s each; before training {100 * rows[0]['before']:.1f} %; {rows[0]['device']}, {versions}."]  # fmt: skip
    return "\n".join(lines) + "\n"


def _main(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["seed"] != PILOT_SEED]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="runs/smollm2")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--report", action="store_true", help="only report the finished runs")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "smollm.jsonl"
    if args.report:
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    else:
        arms = [(c.comparison, name) for c in CONTRASTS for name in (c.arm, c.than)]
        run_job = partial(run, model=args.model, out=args.out)
        with ThreadPoolExecutor(args.jobs) as pool:
            rows = list(pool.map(run_job, [(c, a, rate, PILOT_SEED) for c, a in arms for rate in RATES]))  # fmt: skip
            rates = best_rates(rows)
            print(rates, flush=True)
            jobs = [(c, a, rates[c], seed) for seed in args.seeds for c, a in arms]
            for row in pool.map(run_job, jobs):
                rows.append(row)
                file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (args.out / "smollm.md").write_text(page(rows))
    print(page(rows))


if __name__ == "__main__":
    main()
