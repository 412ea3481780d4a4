"""vlrft compare BEFORE AFTER: two evaluations of the same samples, paired by sample; files of results, or runs."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlrft.cli.outputs import claim_files
from vlrft.data.atomic import write_atomically
from vlrft.evaluation.compare import Comparison, compare
from vlrft.evaluation.result_files import read_records, read_results, records_path
from vlrft.reporting.files import read_summary
from vlrft.reporting.run_evaluations import (
    find_run_log,
    headline_thresholds,
    read_evaluation,
)
from vlrft.reporting.run_folder.names import EVALS
from vlrft.schema import DataError, Record
from vlrft.schema.errors import ConfigError


def run(args: argparse.Namespace) -> None:
    inputs = [args.before, args.after]
    inputs += [records_path(path) for path in inputs if path.name]
    claim_files({"--json": args.json}, overwrite=args.overwrite, inputs=inputs)
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
            threshold = find_threshold(
                grader, {args.before: (before, results), args.after: (after, others)}
            )
        comparisons[grader] = compare(before, after, grader, threshold, args.by)
        print(f"{grader} (correct: a grade of at least {threshold:g})")
        print("\n".join(lines(comparisons[grader])))
    if args.json is not None:
        tree = {g: [dataclasses.asdict(row) for row in rows] for g, rows in comparisons.items()}
        write_atomically(args.json, (json.dumps(tree, indent=1) + "\n").encode())


def find_threshold(
    grader: str, sides: Mapping[Path, tuple[Sequence[Record], Mapping[str, Any]]]
) -> float:
    """The least grade that the metric of the evaluations counts as correct. Records alone, and runs of earlier versions, do not
    have it: then that of the other side, and 1.0 where no grade is between 0 and 1.

    Raises ConfigError where the sides have two, or neither has one and it matters.
    """
    thresholds: dict[Path, float] = {
        path: results[grader]["threshold"]
        for path, (_, results) in sides.items()
        if "threshold" in results.get(grader, {})
    }
    if len(set(thresholds.values())) > 1:
        texts = [f"from {threshold:g} in {path}" for path, threshold in thresholds.items()]
        raise ConfigError(
            [f"{grader}: a grade counts as correct {', and '.join(texts)}; give --threshold"]
        )
    if thresholds:
        return next(iter(thresholds.values()))
    grades = {record.grades.get(grader, 0.0) for records, _ in sides.values() for record in records}
    if grades <= {0.0, 1.0}:
        return 1.0
    names = " or ".join(map(str, sides))
    raise ConfigError(
        [f"{grader}: the grade that counts as correct is not stored in {names}; give --threshold"]
    )


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
    """The records of an evaluation, and its results if `path` is its JSON, or the task and the thresholds of a run; `path` may also
    be a file of records, or name an evaluation of a run (`find_run_log`).

    Raises DataError.
    """
    log = None if path.suffix == ".json" else find_run_log(path)
    if log is not None:
        summary = read_summary(log[0].parent) or {}
        records = read_evaluation(*log)
        thresholds = headline_thresholds(summary, log[1], records[0].grades)
        metrics = {grader: {"threshold": value} for grader, value in thresholds.items()}
        return records, {"task": summary.get("task"), **metrics}
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
