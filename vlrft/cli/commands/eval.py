"""vlrft eval: a model answers a split and is graded. An interrupted evaluation continues where it stopped."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vlrft.cli.outputs import claim_file
from vlrft.cli.partial_records import PartialRecords, partial_records
from vlrft.config import EvalConfig, PolicyConfig, RolloutConfig, TaskConfig
from vlrft.config.load import eval_config, load_config
from vlrft.evaluation.evaluate import compute_metrics, grade_samples
from vlrft.evaluation.result_files import (
    missing_metrics,
    table,
    write_records,
    write_results,
)
from vlrft.evaluation.unreadable import unreadable_lines
from vlrft.rollout.task import load_task
from vlrft.schema import DataError, Group, Sample
from vlrft.schema.errors import ConfigError

READ = ("task", "policy", "rollout", "eval")  # the sections of a config that an evaluation reads


def run(args: argparse.Namespace) -> None:
    out: Path | None = args.json
    claim_file(out, "--json", overwrite=args.overwrite)
    task, model, rollout, decoding = settings(args)
    sections = {"task": task, "policy": model, "rollout": rollout, "eval": decoding}
    with partial_records(out, sections, restart=args.overwrite) as partial:
        evaluate(args, partial, task, model, rollout, decoding)


def evaluate(
    args: argparse.Namespace,
    partial: PartialRecords | None,
    task: TaskConfig,
    model: PolicyConfig,
    rollout: RolloutConfig,
    decoding: EvalConfig,
) -> None:
    """Answers, grades, prints the metrics, and writes them with --json."""
    from transformers.utils import logging as transformers_logging

    from vlrft.distributed.device import pick_device
    from vlrft.evaluation.rollouts import play_evaluation
    from vlrft.policy.adapters import exact_policy
    from vlrft.policy.load import load_policy
    from vlrft.rollout.engines import build_rollout_engine
    from vlrft.rollout.long_prompts import refuse_long_prompts

    transformers_logging.disable_progress_bar()
    loaded = load_task(task, decoding.split)
    loaded.refuse_unreadable_gold_answers()
    samples = loaded.head(decoding.limit)
    if not len(samples):
        raise DataError(
            f"task {loaded.task.name}: no samples to evaluate; check the split and the limit"
        )
    chosen, line = exact_policy(model)
    if line:
        print(f"vlrft: {line}", file=sys.stderr)
    policy = load_policy(chosen, device=pick_device("auto"))
    loaded.refuse_other_resize(policy.chat.resize)
    if warning := loaded.box_warning(policy.box_unit):
        print(f"vlrft: {warning}", file=sys.stderr)
    refuse_long_prompts(loaded, policy.chat, rollout.max_prompt_tokens, decoding.limit)
    engine = build_rollout_engine(rollout, policy)
    engine.load_weights(policy.weights(), 0)

    def play(chunk: Sequence[Sample]) -> list[Group]:
        return play_evaluation(loaded, chunk, engine, policy.chat, rollout, decoding)

    records = partial.begin(decoding.answers) if partial is not None else []
    if records:
        print(f"vlrft: resuming, {len(records)} answers already done", file=sys.stderr)
    total = len(samples) * decoding.answers
    for chunk in grade_samples(loaded, samples, play, range(len(records) // decoding.answers)):
        records += chunk
        if partial is not None:
            write_records(partial.path, chunk)
        print(f"{len(records)} of {total} answers", file=sys.stderr)
    evaluation = compute_metrics(loaded.task, records)
    graders = tuple(evaluation.graded)
    for line in missing_metrics(loaded.task, evaluation):
        print(f"vlrft: {line}", file=sys.stderr)
    print("\n".join([*table(evaluation, graders), *unreadable_lines(records)]))
    if args.json is not None:
        about = {"task": task.name, "split": decoding.split, "model": args.model}
        write_results(args.json, evaluation, graders, **about)


def settings(
    args: argparse.Namespace,
) -> tuple[TaskConfig, PolicyConfig, RolloutConfig, EvalConfig]:
    """The settings of a task by name or of a config; options of the command line take precedence. Raises ConfigError, also
    for an override that no evaluation reads."""
    refuse_unread(args.overrides, from_config=args.config is not None)
    if args.task is not None:
        task, model, rollout, decoding = eval_config(args.task, args.model, args.overrides)
    else:
        config = load_config(args.config, args.overrides, to_train=False)
        model = replace(
            config.policy, model=args.model, build=None, lora=None, adapter=None, freeze=()
        )
        task, rollout, decoding = config.task, config.rollout, config.eval
    split = args.split or decoding.split
    limit = decoding.limit if args.limit is None else args.limit
    return task, model, rollout, replace(decoding, split=split, limit=limit)


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
