"""Every working system of the catalogue, trained by `vlrft train` on a small text policy.

    python -m benchmarks.systems [SYSTEM …] --out runs/systems [--seeds 0 1 2 3 4] [--rows FILE] [--again] [--list]

A system is a number or a name of `vlrft list systems`; without any, all that can be run here, in the catalogue's order.
Runs one after the other in this process, each by the train command itself; finished ones (rows in --rows) are not repeated,
so an interrupted call continues with the next. `python -m benchmarks.systems.report ROWS PAGE` makes the page.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import torch
import yaml

from benchmarks.records import Records, Row, commit_of
from benchmarks.systems.arms import AGAIN, ARMS, Arm, Tree, arm, digest_of, warm_up
from benchmarks.systems.rows import left_out, run_again, run_here
from vlrft.cli.main import main as vlrft
from vlrft.config.systems import System
from vlrft.reporting.run_result import RunResult, read_result
from vlrft.schema.errors import ConfigError

CHECKOUT = Path(__file__).parents[2]
FINISHED = (0, 3)  # 3: no completion earned a reward
SIGNALLED = 128  # from here on: the command was interrupted


def train(tree: Tree, out: Path) -> tuple[RunResult | None, float]:
    """The run of a config by `vlrft train`, and its processor seconds; None where the command refused or failed."""
    shutil.rmtree(out, ignore_errors=True)
    config = out.with_suffix(".yaml")
    config.write_text(yaml.safe_dump(tree, sort_keys=False))
    start = time.process_time()
    with out.with_suffix(".log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
        code = vlrft(["train", str(config), "--out", str(out)])
    seconds = time.process_time() - start
    if code >= SIGNALLED:
        sys.exit(code)
    return (read_result(out) if code in FINISHED else None), seconds


def warm_policy(seed: int, out: Path) -> Path:
    """The folder of the policy from which the runs of a seed start, taught unless it is there."""
    folder = out / f"warm_{seed}"
    if not (folder / "finished").exists():
        result, _ = train(warm_up(seed), folder)
        if result is None:
            sys.exit(f"the warm-up of seed {seed} failed: see {folder}.log")
        (folder / "finished").touch()
    return folder / "checkpoints" / "last"


def row_of(result: RunResult) -> Row:
    """Accuracy before and after, and tokens, of a finished run."""

    def tokens(phase: str) -> int:
        rate, seconds = f"speed/{phase}_tokens_s", f"time/{phase}_s"
        return round(sum(float(r.get(rate, 0.0)) * float(r[seconds]) for r in result.history))

    accuracies = [e["scores"]["accuracy"]["score"] for e in result.evaluations]
    return {
        "start": accuracies[0],
        "final": accuracies[-1],
        "steps": result.steps,
        "sampled": tokens("rollout"),
        "trained": tokens("update"),
    }


def run(system: System, kind: Arm, seed: int, out: Path, records: Records) -> None:
    """Adds the row of a run, unless there is one of the same config."""
    tree = arm(system, kind, seed, warm_policy(seed, out))
    key = {"arm": kind, "seed": seed, "config": digest_of(system, kind, seed)}
    if done := records.find(key):
        if not records.find({**key, "system": system.id}):  # another system has the same config
            records.add([{**done[0], "system": system.id, "name": system.name}])
        return
    folder = out / f"{system.id}_{kind}_{seed}"
    result, seconds = train(tree, folder)
    if result is None:
        print(f"{system.id} {system.name} {kind} {seed}: failed, see {folder}.log", flush=True)
        return
    row = {
        "system": system.id,
        "name": system.name,
        **key,
        **row_of(result),
        "seconds": round(seconds, 2),
    }
    records.add([{**row, "torch": torch.__version__, "commit": commit_of(CHECKOUT)}])
    print(
        f"{system.id} {system.name} {kind} {seed}: {row['start']:.3f} -> {row['final']:.3f}",
        f"{seconds:.1f} s",
        flush=True,
    )
    shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("systems", nargs="*", metavar="SYSTEM")
    parser.add_argument("--out", type=Path, default=Path("runs/systems"))
    parser.add_argument("--rows", type=Path, help="file of results (default: OUT/rows.jsonl)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument(
        "--again",
        action="store_true",
        help="on few prompts that come again, by default what remembers them",
    )
    parser.add_argument("--list", action="store_true", help="say what would be run, and stop")
    args = parser.parse_args()
    try:
        systems = run_again(args.systems) if args.again else run_here(args.systems)
    except ConfigError as e:
        sys.exit(str(e))
    if args.list:
        print("\n".join(f"{s.id:4d} {s.name}" for s in systems))
        for why, others in left_out().items():
            print(f"left out, {why}:", ", ".join(f"{s.id} {s.name}" for s in others))
        return
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    records = Records(args.rows or args.out / "rows.jsonl")
    for system in systems:
        for seed in args.seeds:
            for kind in AGAIN if args.again else ARMS:
                run(system, kind, seed, args.out, records)


if __name__ == "__main__":
    main()
