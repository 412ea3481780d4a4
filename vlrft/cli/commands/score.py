"""vlrft score: stored outputs of any model, graded without running a model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vlrft.cli.outputs import claim_file, refuse_foreign_records
from vlrft.config.load import task_config
from vlrft.data import RowSamples, open_source
from vlrft.data.atomic import draft_path
from vlrft.evaluation.evaluate import EVAL_CHUNK, compute_metrics
from vlrft.evaluation.result_files import (
    missing_metrics,
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
    inputs = (args.predictions,)
    claim_file(args.json, "--json", overwrite=args.overwrite, inputs=inputs)
    stored = None if args.json is None else refuse_foreign_records(args.json)
    claim_file(stored, "--json", overwrite=args.overwrite, inputs=inputs)
    rows = list(read_predictions(args.predictions))
    loaded = load_if_needed(args, rows)
    samples = select_samples(loaded, rows) if loaded is not None else {}
    records: Sequence[Record] = tuple(grade(task, rows, samples, args.predictions))
    if loaded is not None:
        records = complete(loaded, records)
    evaluation = compute_metrics(task, records)
    for line in missing_metrics(task, evaluation):
        print(f"vlrft: {line}", file=sys.stderr)
    graders = tuple(g for g in graders if g in evaluation.graded)
    if not graders:
        raise DataError(
            f"{args.predictions}: the {args.grader} grader applies to no sample, so there are no metrics"
        )
    print("\n".join(table(evaluation, graders)))
    if args.json is not None and stored is not None:
        draft = draft_path(stored.parent)
        write_records(draft, records)
        draft.replace(stored)
        about = {"task": task.name, "split": args.split, "predictions": str(args.predictions)}
        write_results(args.json, evaluation, graders, **about)


def read_predictions(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows `{"id", "output"}`; for samples that are not loaded also `answer` (or `ground_truth`) and `tags`.

    Raises DataError.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    for number, row in enumerate(open_source(path).rows("predictions"), 1):
        wrong = [k for k in ("id", "output") if not isinstance(row.get(k), str | int)]
        if wrong or not isinstance(row["output"], str):
            raise DataError(
                f'{path}, row {number}: expected {{"id": …, "output": text}}, got {str(dict(row))[:80]}'
            )
        gold = {"answer": row["ground_truth"]} if "ground_truth" in row else {}
        yield {**gold, **row}


def load_if_needed(args: argparse.Namespace, rows: list[Mapping[str, Any]]) -> LoadedTask | None:
    """The task with its samples; None when every row has its own gold answer and --data is not given."""
    overrides = list(args.overrides)
    if args.data is not None:
        overrides.append(f"options.data={args.data}")
    elif rows and all("answer" in row for row in rows):
        return None
    return load_task(task_config(args.task, overrides), args.split)


def select_samples(loaded: LoadedTask, rows: list[Mapping[str, Any]]) -> Mapping[str, Sample]:
    """The samples that the rows answer, by id."""
    ids = {str(row["id"]) for row in rows}
    samples = {sample.id: sample for sample in without_images(loaded) if sample.id in ids}
    if absent := len(loaded.samples) - len(samples):
        print(f"vlrft: {absent} of {len(loaded.samples)} samples have no output", file=sys.stderr)
    return samples


def without_images(loaded: LoadedTask) -> Iterable[Sample]:
    """The samples, without opening their images where that is possible."""
    samples = loaded.samples
    return samples.without_images() if isinstance(samples, RowSamples) else samples


def complete(loaded: LoadedTask, records: Sequence[Record]) -> Sequence[Record]:
    """The records completed as in `vlrft eval`, some samples at a time, so that few images are open at once."""
    if loaded.complete is None:
        return records
    records_of: dict[str, list[int]] = {}  # sample id -> indices of its records
    for k, record in enumerate(records):
        records_of.setdefault(record.id, []).append(k)
    completed = list(records)
    answered = [k for k, sample in enumerate(without_images(loaded)) if sample.id in records_of]
    for start in range(0, len(answered), EVAL_CHUNK):
        chunk = [loaded.samples[k] for k in answered[start : start + EVAL_CHUNK]]
        indices = [k for sample in chunk for k in records_of[sample.id]]
        parts = loaded.complete_records(chunk, [records[k] for k in indices])
        for k, record in zip(indices, parts, strict=True):
            completed[k] = record
    return completed


def grade(
    task: Task, rows: list[Mapping[str, Any]], samples: Mapping[str, Sample], path: Path
) -> Iterator[Record]:
    """A record for each row. `path`: of the rows. Raises DataError for a row without sample and gold answer."""
    graders = Graders.of(task)
    for number, row in enumerate(rows, 1):
        name = str(row["id"])
        sample = samples.get(name)
        if sample is None:
            if "answer" not in row:
                raise DataError(
                    f'{path}, row {number}: no sample {name!r} in the data; give its gold answer as "answer"'
                )
            tags: Mapping[str, str] = row.get("tags") or {}
            info: Mapping[str, Any] = row.get("info") or {}
            sample = Sample(id=name, messages=(), answer=row["answer"], tags=tags, info=info)
        yield graders.record(sample, row["output"])
