"""RL over episodes of many turns: success before and after, per seed, from small policies warmed up on gold episodes.

    python -m benchmarks.learning agents gridworld --out runs/agents [--seeds 0 1 2] [--algorithms gpg gigpo]
    python -m benchmarks.learning agents alfworld --data DIR --out runs/agents --warm 0 [--seeds 0 1 2] [--algorithms grpo gmpo] [--jobs 2]

The policies have random weights before the warm-up. The warm-up of a seed is run once, and each algorithm continues from
its checkpoint; --warm uses the warm-up of one seed for all. Finished runs are not repeated. Settings:
benchmarks/learning/agents/NAME_{sft,rl}.yaml. Success is measured before and after on the same held-out episodes; gains
are paired. Writes benchmarks/results/agents_NAME.md and .json.
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

from benchmarks.learning.runs import train_once
from vlrft.evaluation.bootstrap import paired_gain

HERE = Path(__file__).parent
ALGORITHMS = {"gridworld": ["gpg", "gigpo"], "alfworld": ["grpo", "gmpo"]}
Row = dict[str, Any]


def train(config: Path, run: Path, *overrides: str) -> Path:
    """The run's folder; trains unless the run is complete."""
    return train_once(config, overrides, run, threads=1)


def warm_up(name: str, seed: int, out: Path, overrides: list[str]) -> Path:
    """The run folder of a seed's warm-up."""
    config = HERE / "agents" / f"{name}_sft.yaml"
    return train(config, out / f"{name}_sft_{seed}", f"seed={seed}", *overrides)


def learn(name: str, algorithm: str, seed: int, out: Path, warm: Path, overrides: list[str]) -> Row:
    """The results of an algorithm that continues from the warm-up `warm`."""
    start = warm / "checkpoints" / "last"
    config = HERE / "agents" / f"{name}_rl.yaml"
    run = train(
        config,
        out / f"{name}_{algorithm}_{seed}",
        f"seed={seed}",
        f"policy.model={start}",
        f"algorithm.name={algorithm}",
        *overrides,
    )
    return make_row(name, algorithm, seed, run)


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


def percent(metric: Row) -> str:
    low, high = metric["ci"]
    return f"{100 * metric['score']:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def shares(row: Row, name: str) -> str:
    """Before and after, in percent; a dash where the task has no such metric."""
    if name not in row["before"]:
        return "–"
    return " → ".join(f"{100 * row[side][name]['score']:.1f}" for side in ("before", "after"))


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| algorithm | seed | success before | after | paired gain | steps per episode | valid actions, % | admissible, % | tokens per turn | s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in rows:
        before, after, ends = r["before"], r["after"], r["first_and_last_five_steps"]
        low, high = r["gain_ci"]
        tokens = " → ".join(f"{v:.1f}" for v in ends["length/turn_mean"])
        lines.append(
            f"| {r['algorithm']} | {r['seed']} | {percent(before['success'])} | {percent(after['success'])} "
            f"| {100 * r['gain']:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] "
            f"| {before['steps']['score']:.2f} → {after['steps']['score']:.2f} "
            f"| {shares(r, 'valid')} | {shares(r, 'admissible')} | {tokens} "
            f"| {r['seconds']['total']:.0f} |"
        )
    for algorithm in dict.fromkeys(r["algorithm"] for r in rows):
        runs = [r for r in rows if r["algorithm"] == algorithm]
        gains = [100 * r["gain"] for r in runs]
        clear = sum(r["gain_ci"][0] > 0 for r in runs)
        lines += [
            "",
            f"`{algorithm}`: mean gain {mean(gains):+.1f} points over {len(runs)} seeds "
            f"({min(gains):+.1f} to {max(gains):+.1f}), {clear} of them with an interval above 0.",
        ]
    return lines


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
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=HERE.parent / "results")
    args = parser.parse_args()
    overrides = [f"task.options.data={args.data}"] if args.data else []
    algorithms = args.algorithms or ALGORITHMS[args.task]

    def run_seed(seed: int) -> list[Row]:
        warm = warm_up(args.task, seed if args.warm is None else args.warm, args.out, overrides)
        return [learn(args.task, a, seed, args.out, warm, overrides) for a in algorithms]

    if args.warm is not None:
        warm_up(args.task, args.warm, args.out, overrides)  # before threads need it
    with ThreadPoolExecutor(args.jobs) as pool:
        unsorted = [row for rows in pool.map(run_seed, args.seeds) for row in rows]
    rows = sorted(unsorted, key=lambda r: (algorithms.index(r["algorithm"]), r["seed"]))
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
