"""vlrft eval: a model answers a split and is graded. An interrupted evaluation continues where it stopped."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from vlrft.cli.evaluation_html import write_html
from vlrft.cli.outputs import claim_files, data_paths, refuse_other_suffix, refuse_same_file
from vlrft.cli.partial_records import PartialRecords, partial_records
from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.config.overrides import overrides_of
from vlrft.config.unread import refuse_unread
from vlrft.distributed.interrupts import Interrupted, signal_of
from vlrft.evaluation.result_files import results_of, summary_lines, write_records, write_results
from vlrft.reporting.run_folder.names import LAST
from vlrft.schema import Record, Sample
from vlrft.trainer.api.evaluate import (
    MODEL,
    UNREAD,
    EvaluationSettings,
    answer_split,
    settings_of_config,
    settings_of_task,
)
from vlrft.trainer.api.generate import find_model
from vlrft.trainer.api.quiet import quiet_transformers
from vlrft.trainer.api.unread_rewards import refuse_unread_rewards, reward_overrides

READ = ("task", "policy", "rollout", "eval")  # the sections of a config that an evaluation reads


def run(args: argparse.Namespace) -> None:
    out: Path | None = args.json
    refuse_same_file(out, args.html)
    chosen = settings(args)
    inputs = data_paths(chosen.task.options)
    claim_files({"--json": out, "--html": args.html}, overwrite=args.overwrite, inputs=inputs)
    refuse_other_suffix(out)
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

    def begin(samples: Sequence[Sample]) -> list[Record]:
        if partial is None:
            return []
        from vlrft.trainer.rank_facts import hash_of_samples

        records = partial.begin(chosen.decoding.answers, hash_of_samples(samples))
        if args.overwrite and args.html is not None:
            args.html.unlink(missing_ok=True)
        return records

    def store(records: Sequence[Record]) -> None:
        if partial is not None:
            write_records(partial.path, records)

    try:
        evaluation = answer_split(chosen, say=_say, begin=begin, store=store)
    except KeyboardInterrupt as e:
        raise Interrupted(signal_of(e), f"stopped; {kept_answers(partial)}") from None
    graders = tuple(evaluation.graded)
    about = {"task": chosen.task.name, "options": dict(chosen.task.options)}
    about |= {"split": chosen.decoding.split, "model": args.model}
    results = results_of(evaluation, graders, **about)
    if args.json is not None:
        write_results(args.json, results)
    print("\n".join(summary_lines(evaluation, graders)))
    if args.html is not None:
        write_html(args.html, results, evaluation.records, chosen.task)


def kept_answers(partial: PartialRecords | None) -> str:
    """The answers that an interrupted evaluation leaves, and the command that continues it."""
    if partial is None:
        return "nothing is kept, as --json is not given"
    if partial.restart and not partial.begun:
        return "nothing was replaced yet"
    command = "the same command without --overwrite" if partial.restart else "the same command"
    return f"{partial.path} has the answers so far, and {command} continues"


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def linked_checkpoint(model: str) -> str:
    """The checkpoint that a run's link `last` leads to now, as a run that goes on moves the link; any other model as it is."""
    link = Path(model)
    if link.name != LAST or not link.is_symlink():
        return model
    return str(link.with_name(link.resolve().name))


def settings(args: argparse.Namespace) -> EvaluationSettings:
    """The settings of a task by name or of a config, changed by the command line. Raises ConfigError, also for an override
    that no evaluation reads."""
    model = linked_checkpoint(find_model(args.model))
    chosen = {"eval.split": args.split, "eval.limit": args.limit}
    items = [*args.overrides, *overrides_of(chosen)]
    if args.task is not None:
        return settings_of_task(args.task, model, items)
    others = [field.name for field in fields(Config) if field.name not in READ]
    reads = f"an evaluation, which reads {', '.join(READ)} of a config"
    refuse_unread(items, dict.fromkeys(others, ""), reads)
    refuse_unread(items, UNREAD | {"policy.adapter": MODEL}, "an evaluation")
    config = load_config(args.config, items, to_train=False)
    if rewards := reward_overrides(items):
        others = [item for item in items if item not in rewards]
        before = load_config(args.config, others, to_train=False).task
        refuse_unread_rewards(rewards, config.task, "an evaluation", before=before, scores=True)
    return settings_of_config(config, model)
