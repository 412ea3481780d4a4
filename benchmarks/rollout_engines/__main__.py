"""The rollout engines hf and vllm beside each other, on one machine without a GPU.

    python -m benchmarks.rollout_engines [--python .venv-vllm/bin/python] [--parts speed steps episodes]
                                         [--sizes "1 M" …] [--engines hf vllm] [--out FOLDER] [--work FOLDER]

speed     tokens for each processor second, at 1 M, 100 M and 500 M parameters and groups of 1, 4 and 16
steps     seconds of a step with rollout.ahead 0, 1 and 2, and what the model of benchmarks.pipeline gives for them
episodes  seconds of a turn in grid world and ALFWorld: lock-step with hf, each turn as it is ready with vllm

`--python` is that of the environment that `make vllm` makes; without it vllm is left out, and the page says so. Every case
is written to rollout_engines.jsonl at once, and one that is there is not measured again: an interrupted run continues.
Trainer and server have one thread each. Processor seconds are of all processes; other work on the machine moves them
little, and seconds a lot, so the load is written next to them. Writes rollout_engines.md.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.records import Records, commit_of
from benchmarks.rollout_engines import episodes, report, speed, steps
from benchmarks.rollout_engines.sides import ENGINES, SIZES

HERE = Path(__file__).resolve().parents[2]
PARTS = ("speed", "steps", "episodes")
TASKS = ("gridworld", "alfworld")
Row = dict[str, Any]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=str(HERE / ".venv-vllm/bin/python"))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--out", type=Path, default=HERE / "benchmarks/results")
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()) / "rollout_engines"
    )
    return parser.parse_args()


def main() -> None:
    args = parse()
    records = Records(args.out / "rollout_engines.jsonl")
    engines = [e for e in args.engines if e == "hf" or Path(args.python).is_file()]
    if len(engines) < len(args.engines):
        print(f"no vllm: {args.python} is not there; run `make vllm`", file=sys.stderr)

    def keep(key: Row, rows: Iterable[Row]) -> None:
        for row in rows:
            records.add([{**key, **row, "commit": commit_of(HERE)}])
            print({**key, **row}, flush=True)
            (args.out / "rollout_engines.md").write_text(report.page(records, args.python))
        gc.collect()

    if "speed" in args.parts:
        for size in args.sizes:
            for engine in engines:
                key = {"part": "speed", "size": size, "engine": engine}
                if len(records.find(key)) < len(speed.GROUPS):
                    keep(key, speed.measure(size, engine, args.python))
    if "steps" in args.parts:
        for engine in engines:
            for ahead in steps.AHEAD if engine == "vllm" else (0,):
                key = {"part": "steps", "engine": engine, "ahead": ahead}
                if not records.find(key):
                    keep(key, [steps.measure(engine, ahead, args.python, args.work)])
    if "episodes" in args.parts:
        for task in TASKS:
            for engine in engines:
                key = {"part": "episodes", "task": task, "engine": engine}
                if task == "alfworld" and find_spec("alfworld") is None:
                    print("ALFWorld is not installed", file=sys.stderr)
                elif not records.find(key):
                    keep(key, [episodes.measure(task, engine, args.python, args.work / "games")])
    text = report.page(records, args.python)
    (args.out / "rollout_engines.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
