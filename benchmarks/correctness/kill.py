"""Does a run survive `kill -9`? One run undisturbed, one killed at random moments and resumed: the same bits?

    python -m benchmarks.correctness kill --out runs/kill [--config configs/quickstart.yaml] [--kills 3] [--seed 0] [key=value …]

Prints when it killed, what the resumed runs said, and sha256 of both final weights and of both metrics (without the
keys under time/, speed/ and memory/).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path


def start(config: str, run: Path, overrides: list[str], *flags: str) -> subprocess.Popen[str]:
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


def steps_done(run: Path) -> int:
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
    shutil.rmtree(args.out, ignore_errors=True)
    whole, parts = args.out / "whole", args.out / "parts"
    began = time.monotonic()
    if start(args.config, whole, args.overrides).wait() != 0:
        sys.exit("the undisturbed run failed")
    seconds = time.monotonic() - began
    chance = random.Random(args.seed)
    flags: tuple[str, ...] = ()
    for _ in range(args.kills):
        running = start(args.config, parts, args.overrides, *flags)
        flags = ("--resume",)
        wait = chance.uniform(0.1, 0.6) * seconds
        time.sleep(wait)
        running.send_signal(signal.SIGKILL)
        _, said = running.communicate()
        ended = "was over already" if running.returncode == 0 else "killed"
        print(f"{ended} after {wait:.1f} s, {steps_done(parts)} steps logged", flush=True)
    last = start(args.config, parts, args.overrides, *flags)
    _, said = last.communicate()
    print("\n".join(line for line in said.splitlines() if "checkpoint" in line))
    for name, of in (("weights", weights_hash), ("metrics", metrics_hash)):
        one, other = of(whole), of(parts)
        print(
            f"{name}: undisturbed {one}\n{name}: killed      {other}\n{name}: {'equal' if one == other else 'DIFFERENT'}"
        )


if __name__ == "__main__":
    main()
