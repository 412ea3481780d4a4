"""Time of the training loop outside of the model and the rewards, and start-up time of the command line.

    python -m benchmarks.cost overhead [--steps 8] [--repeats 9] [--only loop | command] [--out DIR]

P10: two shapes of training, processor seconds of each step by phase (vlrft/distributed/phases.py) on one thread, which other
work on the machine hardly changes; the first steps of a stage are not counted. Overhead is every phase except the
model's (MODEL) and the rewards'. Making and processing samples and images, which a run can do ahead in threads, is
reported separately. P11: `vlrft list` and `vlrft --help`, wall and processor seconds. Writes
benchmarks/results/overhead_DATE.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from unittest.mock import patch

import torch

from vlrft.config.load import load_config
from vlrft.distributed.phases import PhaseTimer
from vlrft.trainer.run import Run
from vlrft.trainer.setup import open_run
from vlrft.trainer.train import train

RESULTS = Path(__file__).parents[1] / "results"
MODEL = {"prefill", "decode", "head", "choose", "forward", "loss", "backward", "optimiser"}
SEPARATE = {"reward": "rewards", "images": "data, images", "data": "data, images"}
NOT_IN_A_STEP = {"evaluation", "save", "self_check"}
SKIPPED = 2  # steps before anything is counted
COMMANDS = (("list",), ("--help",))
LARGER = {"hidden_size": 384, "layers": 6, "heads": 6, "kv_heads": 2, "intermediate_size": 1024, "vision_width": 192, "vision_layers": 6}  # fmt: skip
SHAPES: dict[str, tuple[str, ...]] = {
    "quickstart": ("algorithm={name: gpg, keep: all, regularize: {kl: 0.15}}",),
    "larger": (
        "algorithm={name: gpg, keep: all, regularize: {kl: 0.15}}",
        f"policy.build={json.dumps(LARGER)}",
        "stages.1.prompts_per_step=8",
        "rollout.max_tokens=32",
        "task.options.canvas=[280]",
    ),
}


class PhaseRecorder:
    """Takes the place of a run's profiler and keeps the seconds of each phase, a mapping per counted step."""

    def __init__(self, skipped: int) -> None:
        self.skipped = skipped
        self.steps: list[dict[str, float]] = []

    def over(self, stage: str, steps: Sequence[int]) -> Iterator[int]:
        for k, step in enumerate(steps):
            with PhaseTimer(time.process_time).running() as phases:
                yield step
            if stage != "sft" and k >= self.skipped:
                self.steps.append(phases.seconds)


def measure_steps(shape: str, steps: int, out: Path) -> list[dict[str, float]]:
    """Seconds of each phase, a mapping per step."""
    config = load_config(
        "configs/quickstart.yaml",
        (
            *SHAPES[shape],
            "stages.0.steps=1",
            f"stages.1.steps={SKIPPED + steps}",
            "eval.limit=1",
            "prefetch_threads=0",
        ),
    )
    recorder = PhaseRecorder(SKIPPED)

    def open_recorded(*args: Any, **kwargs: Any) -> Run:
        run = open_run(*args, **kwargs)
        run.profiler = recorder
        return run

    with patch("vlrft.trainer.train.open_run", open_recorded):
        train(config, out=out, overwrite=True)
    return recorder.steps


def group_phases(step: dict[str, float]) -> dict[str, float]:
    """Seconds of the model, of rewards, of data and images, and of each other phase."""
    kinds: dict[str, float] = {"model": 0.0, "rewards": 0.0, "data, images": 0.0}
    for path, seconds in step.items():
        names = path.split("/")
        if names[0] in NOT_IN_A_STEP or "self_check" in names:
            continue
        kind = "model" if MODEL & set(names) else SEPARATE.get(names[-1], path)
        kinds[kind] = kinds.get(kind, 0.0) + seconds
    return kinds


def overhead(shape: str, steps: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        measured = [group_phases(s) for s in measure_steps(shape, steps, Path(folder) / "run")]
    totals = [sum(s.values()) for s in measured]
    counted = ("model", "rewards", "data, images")
    overheads = [sum(v for k, v in s.items() if k not in counted) for s in measured]
    kinds = dict.fromkeys(k for s in measured for k in s)
    phases = {k: median(s.get(k, 0.0) for s in measured) for k in kinds}
    return {
        "shape": shape,
        "overrides": SHAPES[shape],
        "steps": len(measured),
        "step_s": median(totals),
        "overhead_s": median(overheads),
        "share": median(o / w for o, w in zip(overheads, totals, strict=True)),
        "phases_s": dict(sorted(phases.items(), key=lambda item: -item[1])),
        "load": os.getloadavg()[0],
    }


def time_command(arguments: Sequence[str], repeats: int) -> dict[str, Any]:
    """Wall seconds, and user + system seconds, of a command; the first run fills caches and is not counted."""
    wall, busy = [], []
    for _ in range(repeats + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        script = Path(sys.executable).with_name("vlrft")
        subprocess.run([script, *arguments], check=True, capture_output=True)
        wall.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    low, _, high = quantiles(wall[1:], n=4)
    row = {"command": " ".join(("vlrft", *arguments)), "repeats": repeats, "wall_s": median(wall[1:])}  # fmt: skip
    return row | {"wall_quartiles": [low, high], "user_sys_s": median(busy[1:]), "load": os.getloadavg()[0]}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", choices=["loop", "command"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    versions = {n: version(n) for n in ("vlrft", "torch", "transformers", "pydantic")}
    head = {"versions": versions, "python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count(), "threads": torch.get_num_threads()}  # fmt: skip
    print(json.dumps(head))
    commands = [time_command(c, args.repeats) for c in COMMANDS if args.only != "loop"]
    for c in commands:
        print(f"{c['command']:14} {c['wall_s']:.3f} s wall, {c['user_sys_s']:.3f} s user + sys, load {c['load']:.1f}")  # fmt: skip
    loops = []
    for shape in SHAPES if args.only != "command" else ():
        loops.append(loop := overhead(shape, args.steps))
        print(f"\n{shape}: {loop['step_s']:.3f} s per step (processor), overhead {1e3 * loop['overhead_s']:.1f} ms = {100 * loop['share']:.2f} %, load {loop['load']:.1f}", flush=True)  # fmt: skip
        for name, seconds in loop["phases_s"].items():
            print(f"  {name:24} {1e3 * seconds:9.2f} ms  {100 * seconds / loop['step_s']:6.2f} %")
    args.out.mkdir(parents=True, exist_ok=True)
    date = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    results = {**head, "commands": commands, "loops": loops}
    (args.out / f"overhead_{date}.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
