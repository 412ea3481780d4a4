"""A campaign of faults: random cases of every kind, from seeds, each outcome classified into one table.

    python -m benchmarks.campaign --hours 2 [--seed 0] [--kinds kills damage …] [--records FILE.jsonl] [--out FILE.md]
    python -m benchmarks.campaign --again --cases 20       # first those that did not survive: are they fixed?
    python -m benchmarks.campaign --replay kills 17        # one case again, with everything that it printed

survived: it ended well or with one clear line, and lost nothing; unclear: a traceback, a raw exception, a hang, no line;
lost: a file or a checkpoint of before is gone; wrong: numbers differ from the undisturbed run's, or a wrong answer was
paid. Each case is one line of the records; a second start continues them, and `--hours` counts over all starts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import chain, count
from pathlib import Path
from typing import Any

from benchmarks.campaign.case import Finding, Kind, Plan, Result
from benchmarks.campaign.kinds import KINDS, first_seed, plan_of
from benchmarks.campaign.process import end_all, warm_up
from benchmarks.campaign.runs import SCRATCH
from benchmarks.campaign.table import Row, failures, read_records, render

PACKAGES = ("torch", "transformers", "pydantic", "numpy")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--cases", type=int, help="at most so many cases in this start")
    parser.add_argument("--seed", type=int, default=0, help="the first random seed of each kind")
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=sorted(KINDS))
    parser.add_argument("--records", type=Path, default=Path("runs/campaign.jsonl"))
    parser.add_argument("--out", type=Path, help="write the table to this file")
    parser.add_argument(
        "--again", action="store_true", help="first, once more, each case that did not survive"
    )
    parser.add_argument("--replay", nargs=2, metavar=("KIND", "SEED"), help="run one case again")
    args = parser.parse_args()
    begin = time.monotonic()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if args.replay:
        warm_up()
        return replay(KINDS[args.replay[0]], int(args.replay[1]))
    if any(KINDS[name].trains for name in args.kinds):
        warm_up()
    args.records.parent.mkdir(parents=True, exist_ok=True)
    rows = [row for row in read_records(args.records) if row["kind"] in args.kinds]
    again = failures(rows) if args.again else []
    try:
        carry_on(args, rows, again, begin)
    finally:
        end_all()
    rows = read_records(args.records)
    text = render(rows)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")
    return int(any(row["outcome"] != "survived" for row in rows))


def carry_on(
    args: argparse.Namespace, rows: Sequence[Row], again: Sequence[Row], begin: float
) -> None:
    """Adds cases until those of the records have taken the hours: first those to be done again, then one of the kind that is
    furthest below its share.

    Each kind begins with the cases that found a fault, which have negative seeds, and goes on with random ones.
    `begin`: when this start began; its first case counts the imports.
    """
    spent, seen = dict.fromkeys(args.kinds, 0.0), {name: set[int]() for name in args.kinds}
    for row in rows:
        spent[row["kind"]] += row["seconds"]
        seen[row["kind"]].add(row["seed"])
    seeds = {name: unseen_seeds(name, args.seed, seen[name]) for name in args.kinds}
    commit, versions = find_commit(), {name: version(name) for name in PACKAGES}
    waiting = list(again)
    for _ in count() if args.cases is None else range(args.cases):
        if sum(spent.values()) >= args.hours * 3600:
            return
        if waiting:
            old = waiting.pop(0)
            kind, seed, plan = KINDS[old["kind"]], old["seed"], old["plan"]
        else:
            kind = KINDS[min(args.kinds, key=lambda name: spent[name] / KINDS[name].share)]
            seed = next(seeds[kind.name])
            plan = plan_of(kind, seed)
        row = make_record(kind, seed, plan)
        now = time.monotonic()
        row |= {"seconds": round(now - begin, 2), "commit": commit, "versions": versions}
        begin = now
        with args.records.open("a") as file:
            file.write(json.dumps(row) + "\n")
        spent[kind.name] += row["seconds"]
        if row["outcome"] != "survived":
            texts = "; ".join(finding["text"] for finding in row["findings"])
            print(f"{kind.name} {row['seed']}: {row['outcome']}: {texts[:400]}", flush=True)


def unseen_seeds(name: str, seed: int, seen: Collection[int]) -> Iterator[int]:
    """The seeds of a kind's next cases: first of those that found a fault, then from `seed` on."""
    for number in chain(range(first_seed(name), 0), count(seed)):
        if number not in seen:
            yield number


def make_record(kind: Kind, seed: int, plan: Plan) -> dict[str, Any]:
    """Carries out one case in a folder of its own, which is removed."""
    folder = SCRATCH / f"{kind.name}_{seed}_{os.getpid()}"
    result = carry_out(kind, plan, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return {
        "kind": kind.name,
        "seed": seed,
        "plan": plan,
        "outcome": result.outcome,
        "findings": [asdict(finding) for finding in result.findings],
        "shown": result.shown[:500],
        "trials": result.trials,
    }


def carry_out(kind: Kind, plan: Plan, folder: Path) -> Result:
    """The case's result; a failure of the campaign itself is a finding too, so that it is looked at."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        return kind.run(plan, folder)
    except Exception:
        text = f"the campaign itself failed: {traceback.format_exc(limit=-2)}"
        return Result(findings=(Finding(outcome="unclear", text=text),))


def replay(kind: Kind, seed: int) -> int:
    folder = SCRATCH / f"replay_{kind.name}_{seed}"
    plan = plan_of(kind, seed)
    print(json.dumps(plan, indent=1))
    result = carry_out(kind, plan, folder)
    for path in sorted(p for p in folder.glob("log/**/*") if p.suffix in (".out", ".err")):
        print(f"--- {path.name}\n{path.read_text(errors='backslashreplace')[-3000:]}")
    print(
        f"{result.outcome} ({folder})",
        *(f"{f.outcome}: {f.text}" for f in result.findings),
        sep="\n",
    )
    return int(bool(result.findings))


def find_commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or f"python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
