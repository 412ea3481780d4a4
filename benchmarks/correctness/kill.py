"""A run that is killed with `kill -9` at random moments and resumed, compared bit for bit with an undisturbed run.

    python -m benchmarks.correctness kill --out runs/kill [--config configs/quickstart.yaml] [--kills 3] [--seed 0] [key=value …]

Prints the moments of the kills, the resumed run's messages about checkpoints, and sha256 of both final weights and of
both runs' metrics (without the keys under time/, speed/ and memory/).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.programs import make_folder


def start_run(config: str, run: Path, overrides: list[str], *flags: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "vlrft",
        "train",
        config,
        *overrides,
        "--out",
        str(run),
        *flags,
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def count_steps(run: Path) -> int:
    metrics = run / "metrics.jsonl"
    return metrics.read_text().count("\n") if metrics.exists() else 0


def weights_hash(run: Path) -> str:
    return hashlib.sha256((run / "checkpoints/last/model.safetensors").read_bytes()).hexdigest()


def metrics_hash(run: Path) -> str:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    stable = [
        {k: v for k, v in row.items() if k.split("/")[0] not in ("time", "speed", "memory")}
        for row in rows
    ]
    return hashlib.sha256(json.dumps(stable).encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", default="configs/quickstart.yaml")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_intermixed_args()
    make_folder(args.out)
    undisturbed, killed = args.out / "undisturbed", args.out / "killed"
    start_time = time.monotonic()
    if start_run(args.config, undisturbed, args.overrides).wait() != 0:
        sys.exit("the undisturbed run failed")
    seconds = time.monotonic() - start_time
    chance = random.Random(args.seed)
    flags: tuple[str, ...] = ()
    for _ in range(args.kills):
        running = start_run(args.config, killed, args.overrides, *flags)
        wait = chance.uniform(0.1, 0.6) * seconds
        time.sleep(wait)
        running.send_signal(signal.SIGKILL)
        running.communicate()
        if (killed / "config.yaml").exists():
            flags = ("--resume",)  # there is a run
        outcome = "had already ended" if running.returncode == 0 else "killed"
        print(f"{outcome} after {wait:.1f} s, {count_steps(killed)} steps logged", flush=True)
    last = start_run(args.config, killed, args.overrides, *flags)
    _, messages = last.communicate()
    print("\n".join(line for line in messages.splitlines() if "checkpoint" in line))
    for name, hash_of in (("weights", weights_hash), ("metrics", metrics_hash)):
        one, other = hash_of(undisturbed), hash_of(killed)
        print(
            f"{name}: undisturbed {one}\n{name}: killed      {other}\n{name}: {'equal' if one == other else 'DIFFERENT'}"
        )


if __name__ == "__main__":
    main()
