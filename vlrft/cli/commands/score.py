"""vlrft score: stored outputs of any model, graded without running a model."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from vlrft.cli.evaluation_html import write_html
from vlrft.cli.outputs import (
    claim_file,
    claim_files,
    data_paths,
    refuse_foreign_records,
    refuse_other_suffix,
    refuse_same_file,
)
from vlrft.config.configured import configured_task
from vlrft.evaluation.outputs.columns import Keys
from vlrft.evaluation.outputs.read import read_outputs
from vlrft.evaluation.result_files import replace_records, results_of, summary_lines, write_results
from vlrft.schema import DataError
from vlrft.schema.errors import ConfigError
from vlrft.schema.pluralize import pluralize
from vlrft.trainer.api.score import (
    ScoreSettings,
    grade_all,
    names_data,
    refuse_unknown_split,
    score_config,
)


def run(args: argparse.Namespace) -> None:
    section = score_config(args.task, args.overrides, args.data)
    task, _ = configured_task(section)
    refuse_unknown_split(task, args.split)
    graders = tuple(task.graders) if args.grader == "both" else (args.grader,)
    if unknown := [g for g in graders if g not in task.graders]:
        raise ConfigError(
            [f"task {task.name} has no {unknown[0]} grader; it has {', '.join(task.graders)}"]
        )
    refuse_same_file(args.json, args.html)
    inputs = (args.predictions, *data_paths(section.options))
    files = {"--json": args.json, "--html": args.html}
    claim_files(files, overwrite=args.overwrite, inputs=inputs)
    refuse_other_suffix(args.json)
    stored = None if args.json is None else refuse_foreign_records(args.json)
    claim_file(stored, "--json", overwrite=args.overwrite, inputs=inputs)
    keys = Keys(id=args.id_key, output=args.output_key, answer=args.answer_key)
    outputs = read_outputs(args.predictions, keys)
    print(
        f"vlrft: {args.predictions}: {pluralize(len(outputs.rows), 'output')}, {outputs.form}",
        file=sys.stderr,
    )
    settings = ScoreSettings(
        task=section,
        split=args.split,
        load=names_data(section),
        untagged=args.untagged,
    )
    evaluation = grade_all(
        settings, outputs, str(args.predictions), say=partial(print, file=sys.stderr)
    )
    graders = tuple(g for g in graders if g in evaluation.graded)
    if not graders:
        raise DataError(
            f"{args.predictions}: the {args.grader} grader applies to no sample, so there are no metrics"
        )
    loaded = settings.load or any(row.answer is None for row in outputs.rows)
    about = {"task": section.name, **({"options": dict(section.options)} if loaded else {})}
    about |= {"split": args.split, "predictions": str(args.predictions)}
    results = results_of(evaluation, graders, **about)
    if args.json is not None and stored is not None:
        replace_records(stored, evaluation.records)
        write_results(args.json, results)
    print("\n".join(summary_lines(evaluation, graders)))
    if args.html is not None:
        write_html(args.html, results, evaluation.records, section if loaded else None)
