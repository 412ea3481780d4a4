"""RL over episodes of many turns: success before and after, per seed, from small policies warmed up on gold episodes.

    python -m benchmarks.learning agents gridworld --out runs/agents [--seeds 0 1 2] [--algorithms gpg gigpo]
    python -m benchmarks.learning agents alfworld --data DIR --out runs/agents --warm 0 [--controls 0] [--algorithms grpo] [--jobs 2]

The policies have random weights before the warm-up. The warm-up of a seed is run once, and each algorithm continues from
its checkpoint; --warm uses the warm-up of one seed for all, and --controls adds equal runs whose rewards are permuted within each
group. Finished runs are not repeated, those that were stopped go on. Settings: benchmarks/learning/agents/NAME_{copy,sft,more,rl}.yaml, and
NAME_rl_ALGORITHM.yaml where an algorithm has its own. Success is measured before and after on the same held-out episodes; gains are
paired. Writes benchmarks/results/agents_NAME.md and .json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.learning.agents_page import table
from benchmarks.learning.runs import train_once
from vlrft.evaluation.bootstrap import paired_gain

HERE = Path(__file__).parent
ALGORITHMS = {"gridworld": ["gpg", "gigpo"], "alfworld": ["grpo", "gigpo", "gpg"]}
WARM_UPS = {  # the runs before RL, and what is added to their seed
    "gridworld": {"sft": 0},
    "alfworld": {"copy": 0, "sft": 0, "more": 1},
}
Row = dict[str, Any]


def train(config: Path, run: Path, *overrides: str) -> Path:
    """The run's folder; trains unless the run is complete, from its last checkpoint if it has one."""
    return train_once(config, overrides, run, threads=1, resume=True)


def warm_up(name: str, seed: int, out: Path, overrides: list[str]) -> Path:
    """The folder of the last run of a seed's warm-up, in which each run continues from the one before."""
    runs: list[Path] = []
    for part, more in WARM_UPS[name].items():
        start = [f"policy.model={runs[-1] / 'checkpoints' / 'last'}"] if runs else []
        data = [] if part == "copy" else overrides
        config, run = HERE / "agents" / f"{name}_{part}.yaml", out / f"{name}_{part}_{seed}"
        runs.append(train(config, run, f"seed={seed + more}", *start, *data))
    return runs[-1]


def learn(
    name: str,
    algorithm: str,
    seed: int,
    out: Path,
    warm: Path,
    overrides: list[str],
    *,
    control: bool = False,
) -> Row:
    """The results of an algorithm that continues from the warm-up `warm`. `control`: with permuted rewards."""
    start = warm / "checkpoints" / "last"
    own = HERE / "agents" / f"{name}_rl_{algorithm}.yaml"
    run = train(
        own if own.exists() else HERE / "agents" / f"{name}_rl.yaml",
        out / f"{name}_{algorithm}_{seed}{'_control' if control else ''}",
        f"seed={seed}",
        f"policy.model={start}",
        f"algorithm.name={algorithm}",
        f"permute_rewards={str(control).lower()}",
        *overrides,
    )
    return make_row(name, algorithm, seed, run) | {"control": control}


def make_row(name: str, algorithm: str, seed: int, run: Path) -> Row:
    """Metrics before and after, and the paired gain in success."""
    summary = json.loads((run / "summary.json").read_text())
    values = [json.loads(line)["values"] for line in (run / "values.jsonl").open()]
    steps = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    gain, interval = paired_gain(values[0]["success"], values[-1]["success"])
    names = ("reward/mean", "env/turns", "env/valid", "length/turn_mean", "time/step_s")
    ends = {k: [mean(s[k] for s in part) for part in (steps[:5], steps[-5:])] for k in names}
    return {
        "task": name,
        "algorithm": algorithm,
        "seed": seed,
        "steps": len(steps),
        "before": summary["evals"][0]["scores"],
        "after": summary["evals"][-1]["scores"],
        "gain": gain,
        "gain_ci": interval,
        "first_and_last_five_steps": ends,
        "seconds": summary["seconds"],
        "versions": summary["versions"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=ALGORITHMS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", help="the folder with the games")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--algorithms", nargs="+")
    parser.add_argument(
        "--warm", type=int, metavar="SEED", help="use this seed's warm-up for all seeds"
    )
    parser.add_argument(
        "--controls", type=int, nargs="+", default=[], metavar="SEED", help="seeds of controls"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=HERE.parent / "results")
    args = parser.parse_args()
    overrides = [f"task.options.data={args.data}"] if args.data else []
    algorithms = args.algorithms or ALGORITHMS[args.task]

    def run_seed(seed: int) -> list[Row]:
        warm = warm_up(args.task, seed if args.warm is None else args.warm, args.out, overrides)
        cases = [(a, control) for a in algorithms for control in (False, True)]
        return [
            learn(args.task, a, seed, args.out, warm, overrides, control=control)
            for a, control in cases
            if not control or seed in args.controls
        ]

    if args.warm is not None:
        warm_up(args.task, args.warm, args.out, overrides)  # before threads need it
    with ThreadPoolExecutor(args.jobs) as pool:
        unsorted = [row for rows in pool.map(run_seed, args.seeds) for row in rows]
    rows = sorted(
        unsorted, key=lambda r: (algorithms.index(r["algorithm"]), r["control"], r["seed"])
    )
    report = table(rows)
    print("\n".join(report))
    packages = ", ".join(f"{k} {v}" for k, v in rows[0]["versions"].items())
    setup = f"{packages}; {platform.machine()}, {os.cpu_count()} cores, one thread per run"
    if args.warm is not None:
        setup = f"One warm-up for all seeds; {setup}"
    day = datetime.now(timezone.utc).date().isoformat()
    data = "--data DIR " if args.data else ""
    head = [
        f"# RL over episodes: {args.task}",
        "",
        f"`python -m benchmarks.learning agents {args.task} {data}--out {args.out}`; 95 % intervals.",
        "",
    ]
    page = [*head, *report, "", f"{setup}; {day}."]
    (args.results / f"agents_{args.task}.md").write_text("\n".join(page) + "\n")
    (args.results / f"agents_{args.task}.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
