"""vlrft eval: a model answers a split and is graded. An interrupted evaluation continues where it stopped."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vlrft.cli.evaluation_html import write_html
from vlrft.cli.outputs import claim_file, data_paths, refuse_same_file
from vlrft.cli.partial_records import PartialRecords, partial_records
from vlrft.config.load import load_config
from vlrft.distributed.interrupts import Interrupted, signal_of
from vlrft.evaluation.result_files import results_of, summary_lines, write_records, write_results
from vlrft.schema import Record
from vlrft.schema.errors import ConfigError
from vlrft.trainer.api.evaluate import (
    EvaluationSettings,
    answer_split,
    settings_of_config,
    settings_of_task,
)
from vlrft.trainer.api.generate import find_model
from vlrft.trainer.api.quiet import quiet_transformers

READ = ("task", "policy", "rollout", "eval")  # the sections of a config that an evaluation reads


def run(args: argparse.Namespace) -> None:
    out: Path | None = args.json
    refuse_same_file(out, args.html)
    chosen = settings(args)
    inputs = data_paths(chosen.task.options)
    claim_file(out, "--json", overwrite=args.overwrite, inputs=inputs)
    claim_file(args.html, "--html", overwrite=args.overwrite, inputs=inputs)
    sections = {
        "task": chosen.task,
        "policy": chosen.policy,
        "rollout": chosen.rollout,
        "eval": chosen.decoding,
    }
    with partial_records(out, sections, restart=args.overwrite) as partial, quiet_transformers():
        evaluate(args, partial, chosen)


def evaluate(
    args: argparse.Namespace, partial: PartialRecords | None, chosen: EvaluationSettings
) -> None:
    """Answers, grades, prints the metrics, and writes them with --json."""

    def begin() -> list[Record]:
        return [] if partial is None else partial.begin(chosen.decoding.answers)

    def store(records: Sequence[Record]) -> None:
        if partial is not None:
            write_records(partial.path, records)

    try:
        evaluation = answer_split(chosen, say=_say, begin=begin, store=store)
    except KeyboardInterrupt as e:
        kept = "nothing is kept, as --json is not given"
        if partial is not None:
            kept = f"{partial.path} has the answers so far, and the same command continues"
        raise Interrupted(signal_of(e), f"stopped; {kept}") from None
    graders = tuple(evaluation.graded)
    print("\n".join(summary_lines(evaluation, graders)))
    about = {"task": chosen.task.name, "options": dict(chosen.task.options)}
    about |= {"split": chosen.decoding.split, "model": args.model}
    results = results_of(evaluation, graders, **about)
    if args.json is not None:
        write_results(args.json, results)
    if args.html is not None:
        write_html(args.html, results, evaluation.records, chosen.task)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def settings(args: argparse.Namespace) -> EvaluationSettings:
    """The settings of a task by name or of a config; options of the command line take precedence. Raises ConfigError, also
    for an override that no evaluation reads."""
    refuse_unread(args.overrides, from_config=args.config is not None)
    model = find_model(args.model)
    if args.task is not None:
        chosen = settings_of_task(args.task, model, args.overrides)
    else:
        config = load_config(args.config, args.overrides, to_train=False)
        chosen = settings_of_config(config, model)
    return chosen.choose(args.split, args.limit)


def refuse_unread(overrides: Sequence[str], *, from_config: bool) -> None:
    """Raises ConfigError for overrides that an evaluation would ignore: the model is that of --model, as it is."""
    mistakes = [
        f"{item}: give --model, which names the model that is evaluated"
        for item in overrides
        if item.startswith(("policy.model=", "policy.build", "policy={"))
    ]
    for item in overrides:
        section = item.partition("=")[0].partition(".")[0]
        if from_config and section not in READ:
            mistakes.append(
                f"{item}: has no effect on an evaluation, which reads {', '.join(READ)} of a config"
            )
    if mistakes:
        raise ConfigError(mistakes)
