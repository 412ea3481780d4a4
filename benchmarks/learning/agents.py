"""Does RL over plays of many turns teach? Small policies of random weights, warmed up by gold plays, then RL; seed by seed.

    python -m benchmarks.learning agents gridworld --out runs/agents [--seeds 0 1 2] [--methods gpg gigpo]
    python -m benchmarks.learning agents alfworld --data DIR --out runs/agents --warm 0 [--seeds 0 1 2] [--methods grpo gmpo] [--jobs 2]

A seed's warm-up is run once, and each method goes on from its checkpoint; --warm takes one for all seeds. Runs that are finished are not repeated. Settings are
those of agents/NAME_{sft,rl}.yaml. Success is measured before and after on the same held-out plays; gains are paired. Writes
results/agents_NAME.md and .json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from statistics import mean
from typing import Any

from vlrft.evaluation.bootstrap import paired_gain

HERE = Path(__file__).parent
METHODS = {"gridworld": ["gpg", "gigpo"], "alfworld": ["grpo", "gmpo"]}
Row = dict[str, Any]


def train(config: Path, run: Path, *overrides: str) -> Path:
    """The run's folder; trains unless it is there and whole."""
    if not (run / "report.html").exists():
        command = [sys.executable, "-m", "vlrft", "train", str(config), "--out", str(run)]
        command += ["--overwrite", *overrides]
        run.parent.mkdir(parents=True, exist_ok=True)
        threaded = os.environ | {"OMP_NUM_THREADS": "1"}
        with run.with_suffix(".txt").open("w") as log:
            subprocess.run(command, check=True, env=threaded, stdout=log, stderr=log)
    return run


def warmed(name: str, seed: int, out: Path, given: list[str]) -> Path:
    """The warm-up of a seed."""
    config = HERE / "agents" / f"{name}_sft.yaml"
    return train(config, out / f"{name}_sft_{seed}", f"seed={seed}", *given)


def taught(name: str, method: str, seed: int, out: Path, warm: Path, given: list[str]) -> Row:
    """What a method makes of the warmed-up policy."""
    start = warm / "checkpoints" / "last"
    config = HERE / "agents" / f"{name}_rl.yaml"
    run = train(
        config,
        out / f"{name}_{method}_{seed}",
        f"seed={seed}",
        f"policy.model={start}",
        f"algorithm.name={method}",
        *given,
    )
    return row(name, method, seed, run)


def row(name: str, method: str, seed: int, run: Path) -> Row:
    """Figures before and after, and the paired gain in success."""
    summary = json.loads((run / "summary.json").read_text())
    values = [json.loads(line)["values"] for line in (run / "values.jsonl").open()]
    steps = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    gain, interval = paired_gain(values[0]["success"], values[-1]["success"])
    shown = ("reward/mean", "env/turns", "env/valid", "length/turn_mean", "time/step_s")
    ends = {k: [mean(s[k] for s in part) for part in (steps[:5], steps[-5:])] for k in shown}
    return {
        "task": name,
        "method": method,
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


def percent(figure: Row) -> str:
    low, high = figure["ci"]
    return f"{100 * figure['score']:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| method | seed | success before | after | paired gain | steps a play | readable | tokens a turn | s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in rows:
        before, after, ends = r["before"], r["after"], r["first_and_last_five_steps"]
        low, high = r["gain_ci"]
        tokens = " → ".join(f"{v:.1f}" for v in ends["length/turn_mean"])
        lines.append(
            f"| {r['method']} | {r['seed']} | {percent(before['success'])} | {percent(after['success'])} "
            f"| {100 * r['gain']:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] "
            f"| {before['steps']['score']:.2f} → {after['steps']['score']:.2f} "
            f"| {100 * before['valid']['score']:.1f} → {100 * after['valid']['score']:.1f} | {tokens} "
            f"| {r['seconds']['total']:.0f} |"
        )
    for method in dict.fromkeys(r["method"] for r in rows):
        own = [r for r in rows if r["method"] == method]
        gains = [100 * r["gain"] for r in own]
        clear = sum(r["gain_ci"][0] > 0 for r in own)
        lines += [
            "",
            f"`{method}`: mean gain {mean(gains):+.1f} points over {len(own)} seeds "
            f"({min(gains):+.1f} to {max(gains):+.1f}), {clear} of them with an interval above 0.",
        ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=METHODS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", help="the folder with the games")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--warm", type=int, help="the seed of one warm-up for all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=HERE.parent / "results")
    args = parser.parse_args()
    given = [f"task.options.data={args.data}"] if args.data else []
    methods = args.methods or METHODS[args.task]

    def one(seed: int) -> list[Row]:
        warm = warmed(args.task, seed if args.warm is None else args.warm, args.out, given)
        return [taught(args.task, method, seed, args.out, warm, given) for method in methods]

    if args.warm is not None:
        warmed(args.task, args.warm, args.out, given)  # before several ask for it
    with ThreadPoolExecutor(args.jobs) as pool:
        found = [r for own in pool.map(one, args.seeds) for r in own]
    rows = sorted(found, key=lambda r: (methods.index(r["method"]), r["seed"]))
    report = table(rows)
    print("\n".join(report))
    packages = ", ".join(f"{k} {v}" for k, v in rows[0]["versions"].items())
    where = f"{packages}; {platform.machine()}, {os.cpu_count()} cores, one thread a run"
    if args.warm is not None:
        where = f"One warm-up for all seeds; {where}"
    day = datetime.now(timezone.utc).date().isoformat()
    head = [
        f"# RL over plays: {args.task}",
        "",
        "`python -m benchmarks.learning agents`; 95 % intervals.",
        "",
    ]
    page = [*head, *report, "", f"{where}; {day}."]
    (args.results / f"agents_{args.task}.md").write_text("\n".join(page) + "\n")
    (args.results / f"agents_{args.task}.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
