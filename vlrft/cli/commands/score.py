"""vlrft score: stored outputs of any model, graded without running a model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from vlrft.cli.outputs import claim_file, refuse_foreign_records
from vlrft.config.load import task_config
from vlrft.data.atomic import draft_path
from vlrft.evaluation.evaluate import compute_metrics
from vlrft.evaluation.outputs.columns import Keys, OutputRow
from vlrft.evaluation.outputs.read import read_outputs
from vlrft.evaluation.result_files import (
    missing_metrics,
    table,
    write_records,
    write_results,
)
from vlrft.evaluation.score import complete, grade_outputs, match_samples
from vlrft.evaluation.unreadable import unreadable_lines
from vlrft.rollout.task import LoadedTask, configured_task, load_task
from vlrft.schema import DataError, Record
from vlrft.schema.errors import ConfigError


def run(args: argparse.Namespace) -> None:
    task, _ = configured_task(task_config(args.task, overrides_of(args)))
    graders = tuple(task.graders) if args.grader == "both" else (args.grader,)
    if unknown := [g for g in graders if g not in task.graders]:
        raise ConfigError(
            [f"task {task.name} has no {unknown[0]} grader; it has {', '.join(task.graders)}"]
        )
    inputs = (args.predictions,)
    claim_file(args.json, "--json", overwrite=args.overwrite, inputs=inputs)
    stored = None if args.json is None else refuse_foreign_records(args.json)
    claim_file(stored, "--json", overwrite=args.overwrite, inputs=inputs)
    keys = Keys(id=args.id_key, output=args.output_key, answer=args.answer_key)
    outputs = read_outputs(args.predictions, keys)
    print(
        f"vlrft: {args.predictions}: {len(outputs.rows)} outputs, {outputs.form}", file=sys.stderr
    )
    loaded = load_if_needed(args, outputs.rows)
    matched = match_samples(outputs.rows, loaded, args.split, str(args.predictions))
    for note in matched.notes:
        print(f"vlrft: {note}", file=sys.stderr)
    records: Sequence[Record] = tuple(
        grade_outputs(task, outputs.rows, matched.samples, untagged=args.untagged)
    )
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
    print("\n".join([*table(evaluation, graders), *unreadable_lines(records)]))
    if args.json is not None and stored is not None:
        draft = draft_path(stored.parent)
        write_records(draft, records)
        draft.replace(stored)
        about = {"task": task.name, "split": args.split, "predictions": str(args.predictions)}
        write_results(args.json, evaluation, graders, **about)


def load_if_needed(args: argparse.Namespace, rows: Sequence[OutputRow]) -> LoadedTask | None:
    """The task with its samples; None when every row has its own gold answer and --data is not given."""
    if args.data is None and all(row.answer is not None for row in rows):
        return None
    return load_task(task_config(args.task, overrides_of(args)), args.split)


def overrides_of(args: argparse.Namespace) -> list[str]:
    """The overrides of the command line, with those of --data."""
    place = [] if args.data is None else [f"options.data={args.data}"]
    return [*args.overrides, *place]
