"""vlrft score: grades stored outputs, of any model, without loading one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vlrft.config.load import task_config
from vlrft.data import RowSamples, open_source
from vlrft.evaluation.evaluate import EVAL_CHUNK, compute_metrics
from vlrft.evaluation.result_files import (
    missing_metrics,
    records_path,
    table,
    write_records,
    write_results,
)
from vlrft.plugins.find import find_task
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema import DataError, Record, Sample, Task
from vlrft.schema.errors import ConfigError
from vlrft.scoring.graders import Graders


def run(args: argparse.Namespace) -> None:
    task = find_task(args.task)
    graders = tuple(task.graders) if args.grader == "both" else (args.grader,)
    if unknown := [g for g in graders if g not in task.graders]:
        raise ConfigError(
            [f"task {task.name} has no {unknown[0]} grader; it has {', '.join(task.graders)}"]
        )
    if args.json is not None and args.json.exists() and not args.overwrite:
        raise ConfigError([f"{args.json} exists; use --overwrite or another --json"])
    rows = list(read_predictions(args.predictions))
    loaded = bound_task(args, rows)
    samples = samples_of(loaded, rows) if loaded is not None else {}
    records: Sequence[Record] = tuple(grade(task, rows, samples, args.predictions))
    if loaded is not None:
        records = completed(loaded, records)
    found = compute_metrics(task, records)
    for line in missing_metrics(task, found):
        print(f"vlrft: {line}", file=sys.stderr)
    graders = tuple(g for g in graders if g in found.graded)
    if not graders:
        raise DataError(f"{args.predictions}: no figures by the {args.grader} grader")
    print("\n".join(table(found, graders)))
    if args.json is not None:
        path = records_path(args.json)
        path.unlink(missing_ok=True)
        write_records(path, records)
        about = {"task": task.name, "split": args.split, "predictions": str(args.predictions)}
        write_results(args.json, found, graders, **about)


def read_predictions(path: Path) -> Iterator[Mapping[str, Any]]:
    """Rows `{"id", "output"}`, with `answer` (or `ground_truth`) and `tags` where the pack's data are not at hand.

    Raises DataError.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    for number, row in enumerate(open_source(path).rows("predictions"), 1):
        wrong = [k for k in ("id", "output") if not isinstance(row.get(k), str | int)]
        if wrong or not isinstance(row["output"], str):
            raise DataError(
                f'{path}, row {number}: expected {{"id": …, "output": text}}, found {str(dict(row))[:80]}'
            )
        gold = {"answer": row["ground_truth"]} if "ground_truth" in row else {}
        yield {**gold, **row}


def bound_task(args: argparse.Namespace, rows: list[Mapping[str, Any]]) -> LoadedTask | None:
    """The pack with its samples; None when every row brings its own gold answer and no data are named."""
    overrides = list(args.overrides)
    if args.data is not None:
        overrides.append(f"options.data={args.data}")
    elif rows and all("answer" in row for row in rows):
        return None
    return load_task(task_config(args.task, overrides), args.split)


def samples_of(loaded: LoadedTask, rows: list[Mapping[str, Any]]) -> Mapping[str, Sample]:
    """Those that rows are about, by id."""
    wanted = {str(row["id"]) for row in rows}
    found: dict[str, Sample] = {}
    own = loaded.samples
    for sample in own.without_images() if isinstance(own, RowSamples) else own:
        if sample.id in wanted:
            found[sample.id] = sample
    if absent := len(loaded.samples) - len(found):
        print(f"vlrft: {absent} of {len(loaded.samples)} samples have no output", file=sys.stderr)
    return found


def completed(loaded: LoadedTask, records: Sequence[Record]) -> Sequence[Record]:
    """The records as `vlrft eval` completes them, of a bounded number of samples at a time; pictures are opened only
    where the task needs them for it."""
    if loaded.complete is None:
        return records
    answers: dict[str, list[int]] = {}
    for k, record in enumerate(records):
        answers.setdefault(record.id, []).append(k)
    own, done = loaded.samples, list(records)
    light = own.without_images() if isinstance(own, RowSamples) else own
    places = [k for k, sample in enumerate(light) if sample.id in answers]
    for start in range(0, len(places), EVAL_CHUNK):
        chunk = [own[k] for k in places[start : start + EVAL_CHUNK]]
        spots = [k for sample in chunk for k in answers[sample.id]]
        found = loaded.complete_records(chunk, [records[k] for k in spots])
        for k, record in zip(spots, found, strict=True):
            done[k] = record
    return done


def grade(
    task: Task, rows: list[Mapping[str, Any]], samples: Mapping[str, Sample], where: Path
) -> Iterator[Record]:
    graders = Graders.of(task)
    for number, row in enumerate(rows, 1):
        name = str(row["id"])
        sample = samples.get(name)
        if sample is None:
            if "answer" not in row:
                raise DataError(
                    f'{where}, row {number}: the data have no sample {name!r}; give its gold as "answer"'
                )
            tags: Mapping[str, str] = row.get("tags") or {}
            info: Mapping[str, Any] = row.get("info") or {}
            sample = Sample(id=name, messages=(), answer=row["answer"], tags=tags, info=info)
        yield graders.record(sample, row["output"])
