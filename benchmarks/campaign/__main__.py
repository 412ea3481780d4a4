"""A campaign of faults: random cases of every kind, from seeds, each outcome classified into one table.

    python -m benchmarks.campaign --hours 2 [--seed 0] [--kinds kills damage …] [--records FILE.jsonl] [--out FILE.md]
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
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import chain, count
from pathlib import Path
from typing import Any

from benchmarks.campaign.case import Finding, Kind, Result
from benchmarks.campaign.kinds import KINDS, first_seed, plan_of
from benchmarks.campaign.process import warm_up
from benchmarks.campaign.runs import SCRATCH
from benchmarks.campaign.table import read_records, render

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
    carry_on(args.records, args.kinds, args.seed, args.hours * 3600, args.cases, begin)
    rows = read_records(args.records)
    text = render(rows)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")
    return int(any(row["outcome"] != "survived" for row in rows))


def carry_on(
    records: Path, kinds: Sequence[str], seed: int, seconds: float, cases: int | None, begin: float
) -> None:
    """Adds cases until the records' cases have taken so many seconds: next is the kind that is furthest behind its share.

    Each kind begins with the cases that found a fault, which have negative seeds, and goes on with random ones from `seed`.
    `begin`: when this start began; its first case counts the imports.
    """
    spent, seen = dict.fromkeys(kinds, 0.0), {name: set[int]() for name in kinds}
    for row in read_records(records):
        if row["kind"] in spent:
            spent[row["kind"]] += row["seconds"]
            seen[row["kind"]].add(row["seed"])
    seeds = {name: unseen_seeds(name, seed, seen[name]) for name in kinds}
    commit, versions = find_commit(), {name: version(name) for name in PACKAGES}
    for _ in count() if cases is None else range(cases):
        if sum(spent.values()) >= seconds:
            return
        kind = KINDS[min(kinds, key=lambda name: spent[name] / KINDS[name].share)]
        row = make_record(kind, next(seeds[kind.name]))
        now = time.monotonic()
        row |= {"seconds": round(now - begin, 2), "commit": commit, "versions": versions}
        begin = now
        with records.open("a") as file:
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


def make_record(kind: Kind, seed: int) -> dict[str, Any]:
    """Carries out one case in a folder of its own, which is removed."""
    folder = SCRATCH / f"{kind.name}_{seed}_{os.getpid()}"
    plan = plan_of(kind, seed)
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


def carry_out(kind: Kind, plan: Mapping[str, Any], folder: Path) -> Result:
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
