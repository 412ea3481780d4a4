"""vlrft compared with TRL's GRPOTrainer: time of updates, rollouts and whole steps, and peak memory.

    OMP_WAIT_POLICY=PASSIVE python -m benchmarks.vs_trl [--cases P1 P7] [--repeats 5] [--scale small|full]
        [--family qwen2_vl|qwen2_5_vl] [--threads 2] [--trl-rows N] [--out FOLDER]

Each side runs in a separate process, and only one of them works at a time: a repeat is one step of each side, in
alternating order. Both load the same saved random policy and get the same images, questions and, where an update is
measured, the same recorded completions and rewards (data.py); same optimiser, float32, no activation checkpointing.
Log-probs ban no tokens, as in TRL; rollouts ban the same tokens on both sides and are all C tokens long.

The gate comes first: losses equal, Σ A log π equal, every parameter's gradient within 1e-5 of its norm (rollouts: greedy
ids equal); otherwise the results are void. Measured quantities:

    update   completions with their rewards -> optimiser step; images and prompts are processed before
    rollout  ids and pixels -> ids
    step     questions and images -> optimiser step
    memory   peak of the resident set during the measured part minus its size before; Adam's moments already exist

Seconds are processor time of all threads; wall-clock times are in the rows, too.

Writes one row per repeat into FOLDER/vs_trl_DATE.jsonl, and FOLDER/vs_trl.md from all such files; repeats that the day's
file already has are not run again. FOLDER: benchmarks/results, at small scale runs/vs_trl. TRL's settings: theirs.py. The
whole takes about 20 minutes on two free cores; P6r runs only when it is named.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, get_args

from benchmarks.vs_trl.cases import CASES, ON_REQUEST, Case, Family, Job, Scale, build_config, cases
from benchmarks.vs_trl.data import save_model
from benchmarks.vs_trl.gate import BOUND, GPU_BOUND, compare
from benchmarks.vs_trl.process import Side, start
from benchmarks.vs_trl.report import heading, machine, page

SIDES: tuple[Side, Side] = ("vlrft", "trl")
Row = dict[str, Any]


def run(job: Job, repeats: range, write: Callable[[Row], None]) -> None:
    """Run the gate and, if it is passed, the repeats; `write` gets each row as soon as it is measured."""
    processes = {side: start(side, job) for side in SIDES}
    for side in SIDES:
        processes[side].recv()  # ready
    gates = {side: turn(processes[side])["gate"] for side in SIDES}
    bound = BOUND if job.device == "cpu" else GPU_BOUND
    verdict = compare(gates["vlrft"], gates["trl"], bound)
    write({"gate": verdict.values, "mistakes": verdict.mistakes})
    for repeat in () if verdict.mistakes else repeats:
        order = SIDES if repeat % 2 else SIDES[::-1]
        results: Row = {side: turn(processes[side]) for side in order}
        write({"repeat": repeat, "first": order[0]} | results)
    for connection in processes.values():
        connection.close()


def turn(process: Connection) -> dict[str, Any]:
    """Let one side run a step, while the other one waits; return its result."""
    process.send(True)
    result: dict[str, Any] = process.recv()
    return result


def measure(case: Case, args: argparse.Namespace, rows: list[Row], file: Path) -> None:
    """Run the repeats of a case that are missing; add their rows to `rows` and to the file."""
    settings = {"case": case.name, "scale": args.scale, "family": args.family}
    settings |= {"threads": args.threads, "trl_rows": case.trl_rows}
    finished = sum(settings.items() <= row.items() and "repeat" in row for row in rows)
    if finished >= args.repeats:
        return
    build = build_config(case, args.family, args.scale)
    folder = args.work / f"{args.scale}_{build.family}_{case.vocabulary or 'own'}"
    save_model(build, case.vocabulary, folder)

    def write(row: Row) -> None:
        full = settings | {"load": os.getloadavg()[0]} | row
        rows.append(full)
        with file.open("a") as out:
            out.write(json.dumps(full) + "\n")

    with tempfile.TemporaryDirectory() as scratch:
        steps = args.repeats + 2
        job = Job(case=case, folder=folder, scratch=Path(scratch), threads=args.threads, steps=steps)  # fmt: skip
        run(job, range(finished, args.repeats), write)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [case.name for case in CASES]
    parser.add_argument(
        "--cases", nargs="+", choices=names, default=[n for n in names if n not in ON_REQUEST]
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scale", choices=get_args(Scale), default="full")
    parser.add_argument("--family", choices=get_args(Family), default="qwen2_vl")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--trl-rows", type=int, help="completions per micro-batch on TRL's side")
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--work", type=Path, default=Path("runs/vs_trl"), help="folder of the saved policies"
    )
    args = parser.parse_args()
    out: Path = args.out or Path("benchmarks/results" if args.scale == "full" else "runs/vs_trl")
    out.mkdir(parents=True, exist_ok=True)
    os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": str(args.threads)}
    file = out / f"vs_trl_{datetime.now(timezone.utc):%Y-%m-%d}.jsonl"
    rows: list[Row] = []
    if file.exists():
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    environment = machine(args.threads)
    if environment not in rows:
        rows.append(environment)
        with file.open("a") as lines:
            lines.write(json.dumps(environment) + "\n")
    print(heading(rows), flush=True)
    for case in cases(args.cases, args.scale):
        if args.trl_rows is not None:
            case = replace(case, trl_rows=args.trl_rows)
        measure(case, args, rows, file)
        print(page([r for r in rows if r.get("case") == case.name]), flush=True)
    (out / "vs_trl.md").write_text(whole_page(out), encoding="utf-8")


def whole_page(out: Path) -> str:
    """The page of all days, the newest first; a case of the newest day may be missing there."""
    days = [
        (file.stem.removeprefix("vs_trl_"), [json.loads(line) for line in file.read_text().splitlines()])
        for file in sorted(out.glob("vs_trl_*.jsonl"), reverse=True)
    ]  # fmt: skip
    parts = [heading([row for _, rows in days for row in rows])]
    parts += [f"## Measured on {day}\n\n{page(rows)}" for day, rows in days]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
