"""vlrft compare A B: paired, on the same samples."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from vlrft.data.jsonl import replace
from vlrft.evaluation.compare import Comparison, compare
from vlrft.evaluation.result_files import read_records
from vlrft.schema import DataError, Record
from vlrft.schema.errors import ConfigError


def run(args: argparse.Namespace) -> None:
    if args.json is not None and args.json.exists() and not args.overwrite:
        raise ConfigError([f"{args.json} exists; use --overwrite or another --json"])
    before, known = read(args.before)
    after, _ = read(args.after)
    graders = [g for g in ("strict", "official") if g in before[0].grades and g in after[0].grades]
    chosen = graders if args.grader == "both" else [args.grader]
    if not chosen:
        raise DataError(f"{args.before} and {args.after} have no grader in common")
    found: dict[str, list[Comparison]] = {}
    for grader in chosen:
        threshold = (
            known.get(grader, {}).get("threshold", 1.0)
            if args.threshold is None
            else args.threshold
        )
        found[grader] = compare(before, after, grader, threshold, args.by)
        print(f"{grader} (right from {threshold:g})")
        print("\n".join(lines(found[grader])))
    if args.json is not None:
        tree = {g: [dataclasses.asdict(row) for row in rows] for g, rows in found.items()}
        replace(args.json, (json.dumps(tree, indent=1) + "\n").encode())


def read(path: Path) -> tuple[list[Record], dict[str, Any]]:
    """The records of an evaluation's JSON, or a file of records. Raises DataError."""
    if not path.is_file():
        raise DataError(f"{path}: no such file; give what vlrft eval or score wrote with --json")
    known: dict[str, Any] = {}
    records = path
    if path.suffix == ".json":
        known = json.loads(path.read_text(encoding="utf-8"))
        if "records" not in known:
            raise DataError(
                f"{path}: names no records; give what vlrft eval or score wrote with --json"
            )
        named = Path(known["records"])
        records = named if named.is_file() else path.with_name(named.name)
    if not records.is_file():
        raise DataError(f"{path}: its records {records} are not there")
    found = read_records(records)
    if not found:
        raise DataError(f"{records}: holds no records")
    return found, known


def lines(rows: list[Comparison]) -> list[str]:
    width = max(len(r.name) for r in rows)
    head = f"{'':{width}}      n  before   after    gain  95 % interval       gained  lost  p (McNemar)"
    body = [
        f"{r.name:{width}}  {r.n:5d}  {100 * r.before:6.2f}  {100 * r.after:6.2f}  {100 * r.gain:+6.2f}  "
        f"[{100 * r.ci[0]:+6.2f}, {100 * r.ci[1]:+6.2f}]  {r.gained:7d} {r.lost:5d}  {r.p:.2g}"
        for r in rows
    ]
    return [head, *body]
