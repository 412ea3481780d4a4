"""vlrft compare BEFORE AFTER: two evaluations of the same samples, paired by sample; files of results, or runs."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from vlrft.cli.outputs import claim_file
from vlrft.data.atomic import write_atomically
from vlrft.evaluation.compare import Comparison, compare
from vlrft.evaluation.result_files import read_records, read_results, records_path
from vlrft.reporting.files import read_summary
from vlrft.reporting.run_evaluations import find_run_log, read_evaluation
from vlrft.reporting.run_folder.names import EVALS
from vlrft.schema import DataError, Record


def run(args: argparse.Namespace) -> None:
    inputs = [args.before, args.after]
    inputs += [records_path(path) for path in inputs if path.name]
    claim_file(args.json, "--json", overwrite=args.overwrite, inputs=inputs)
    before, results = read(args.before)
    after, others = read(args.after)
    refuse_other_task(results.get("task"), others.get("task"))
    graders = [g for g in ("strict", "official") if g in before[0].grades and g in after[0].grades]
    if args.grader != "both":
        graders = [args.grader]
    if not graders:
        raise DataError(f"{args.before} and {args.after} have no grader in common")
    comparisons: dict[str, list[Comparison]] = {}
    for grader in graders:
        threshold = args.threshold
        if threshold is None:
            threshold = results.get(grader, {}).get("threshold", 1.0)
        comparisons[grader] = compare(before, after, grader, threshold, args.by)
        print(f"{grader} (correct: a grade of at least {threshold:g})")
        print("\n".join(lines(comparisons[grader])))
    if args.json is not None:
        tree = {g: [dataclasses.asdict(row) for row in rows] for g, rows in comparisons.items()}
        write_atomically(args.json, (json.dumps(tree, indent=1) + "\n").encode())


def refuse_other_task(before: str | None, after: str | None) -> None:
    """Raises DataError for evaluations of two packs, whose samples may have the same ids. One that is unknown, or is a file
    or a module, which has many names, is not compared."""
    names = [
        name for name in (before, after) if name and ":" not in name and not name.endswith(".py")
    ]
    if len(set(names)) > 1:
        raise DataError(
            f"the evaluations are of two tasks, {' and '.join(names)}; compare evaluations of the same samples"
        )


def read(path: Path) -> tuple[list[Record], dict[str, Any]]:
    """The records of an evaluation, and its results if `path` is its JSON, or the task of a run; `path` may also be a file of records, or name an
    evaluation of a run (`find_run_log`).

    Raises DataError.
    """
    log = None if path.suffix == ".json" else find_run_log(path)
    if log is not None:
        summary = read_summary(log[0].parent) or {}
        return read_evaluation(*log), {"task": summary.get("task")}
    if path.is_dir():
        raise DataError(f"{path}: a folder without evaluations of a run ({EVALS})")
    if path.suffix == ".json" or not path.is_file():
        results, records = read_results(path)
        return records, results
    records = read_records(path)
    if not records:
        raise DataError(f"{path}: has no records")
    return records, {}


def lines(rows: list[Comparison]) -> list[str]:
    """The printed table, columns aligned."""
    width = max(len(r.name) for r in rows)
    head = f"{'':{width}}      n  before   after    gain  95 % interval       gained  lost  p (McNemar)"
    body = [
        f"{r.name:{width}}  {r.n:5d}  {100 * r.before:6.2f}  {100 * r.after:6.2f}  {100 * r.gain:+6.2f}  "
        f"[{100 * r.ci[0]:+6.2f}, {100 * r.ci[1]:+6.2f}]  {r.gained:7d} {r.lost:5d}  {r.p:.2g}"
        for r in rows
    ]
    return [head, *body]
