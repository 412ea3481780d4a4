"""vlrft data: `prepare TASK` writes validated rows into a folder, once; `show TASK` describes the samples."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from vlrft.cli.outputs import claim_files, data_paths
from vlrft.cli.preparation import Preparation
from vlrft.cli.prompt_limit import PromptLimit, load_prompt_limit
from vlrft.cli.synthetic_rows import find_synthetic_rows
from vlrft.config import TaskConfig
from vlrft.config.configured import configured_task
from vlrft.config.load import prepare_config, task_config
from vlrft.config.overrides import overrides_of
from vlrft.config.unread import refuse_unread
from vlrft.data import Dataset, generate
from vlrft.data.thoughts import Thoughts
from vlrft.plugins.find import find_task
from vlrft.reporting.html.contact_sheet import describe_sample, describe_samples, write_sheet
from vlrft.rollout.task import load_task
from vlrft.schema import DataError, Task
from vlrft.schema.errors import ConfigError, MissingSplit
from vlrft.schema.pluralize import pluralize
from vlrft.trainer.api.generate import find_model
from vlrft.trainer.api.unread_rewards import refuse_unread_rewards, reward_overrides

SHOWN = 10  # samples of a split
UNREAD = {  # action -> the sections of a task that it has no use for
    "prepare": {"env": "", "examples": "", "on_bad": ""},
    "show": {"env": "", "examples": "", "rewards": ""},
}
ONLY = {  # option -> the one action that has a use for it
    "out": "prepare",
    "count": "prepare",
    "synthetic": "prepare",
    "thoughts": "prepare",
    "seed": "prepare",
    "model": "prepare",
    "max_prompt_tokens": "prepare",
    "html": "show",
}


def run(args: argparse.Namespace) -> None:
    for option, action in ONLY.items():
        if getattr(args, option) is not None and action != args.action:
            flag = f"--{option.replace('_', '-')}"
            raise ConfigError(
                [f"{flag}: vlrft data {args.action} has no use for it; vlrft data {action} has"]
            )
    refuse_unread(args.overrides, UNREAD[args.action], f"vlrft data {args.action}")
    task = find_task(args.task)
    if unknown := [split for split in args.split or () if split not in task.splits]:
        raise ConfigError(
            [
                f"--split: task {task.name} has no split {unknown[0]!r}; it has {', '.join(task.splits)}"
            ]
        )
    if args.max_prompt_tokens is not None and args.model is None:
        raise ConfigError(["--max-prompt-tokens: say with --model MODEL whose tokens are counted"])
    {"prepare": run_prepare, "show": run_show}[args.action](args)


def run_prepare(args: argparse.Namespace) -> None:
    task = find_task(args.task)
    synthetic = find_synthetic_rows(task, args)
    if task.generate is not None or args.count is not None:
        run_generate(task, args)
        return
    if not isinstance(task.load, Dataset):
        raise ConfigError([f"task {task.name} makes its own samples: there is nothing to prepare"])
    if args.seed is not None and synthetic is None:
        raise ConfigError(
            ["--seed: the rows of a published data set have no seed; those of --synthetic N have"]
        )
    if args.out is None:
        raise ConfigError(["vlrft data prepare: say where to write with --out DIR"])
    overrides = [*args.overrides, *overrides_of({"options.data": args.where})]
    task, options, limit = read_settings(args, overrides)
    assert isinstance(task.load, Dataset)
    preparation = Preparation(
        task=task,
        options=options,
        out=args.out,
        limit=limit,
        synthetic=synthetic,
        thoughts=None if args.thoughts is None else Thoughts.read(args.thoughts),
    )
    splits = args.split or task.splits
    earlier = () if args.overwrite else [split for split in splits if preparation.is_done(split)]
    problems: dict[str, DataError] = {}
    for split in splits:
        if split in earlier:
            print(f"{split}: already prepared (--overwrite prepares it again)")
            continue
        try:
            print("\n".join(preparation.prepare(split, restart=args.overwrite)))
        except DataError as e:
            if args.split:
                raise
            problems[f"{split}: not prepared"] = e
    if preparation.thoughts is not None and not earlier and preparation.thoughts.unused:
        print(preparation.thoughts.unused_note(splits))
    some = len(problems) < len(splits)
    report_problems(problems, f"task {task.name}: no split could be prepared", some=some)


def read_settings(
    args: argparse.Namespace, overrides: Sequence[str]
) -> tuple[Task, Any, PromptLimit | None]:
    """The task with its options and, with --model, the limit on its prompts."""
    if args.model is None:
        return *configure(task_config(args.task, overrides), overrides), None
    section, policy = prepare_config(args.task, find_model(args.model), overrides)
    task, options = configure(section, overrides)
    assert isinstance(task.load, Dataset)
    frames = task.load.frame_rule(options)
    return task, options, load_prompt_limit(task, policy, args.max_prompt_tokens, frames)


def configure(section: TaskConfig, overrides: Sequence[str]) -> tuple[Task, Any]:
    """The task with its options. Raises ConfigError, also for rewards that no row is checked with."""
    refuse_unread_rewards(reward_overrides(overrides), section, "vlrft data prepare")
    return configured_task(section)


def run_generate(task: Task, args: argparse.Namespace) -> None:
    options = {
        "--from": args.where,
        "--thoughts": args.thoughts,
        "--split": args.split,
        "--overwrite": args.overwrite,
        "--model": args.model,
    }
    if unused := [flag for flag, value in options.items() if value]:
        raise ConfigError(
            [f"{unused[0]}: cannot be combined with --count; {task.name} makes its data"]
        )
    task, given = configure(task_config(args.task, args.overrides), args.overrides)
    for line in generate(task, args.count, args.seed or 0, args.out, given):
        print(line, flush=True)


def report_problems(problems: Mapping[str, DataError], failure: str, *, some: bool) -> None:
    """Prints why splits could not be used. Raises DataError where none could: the one problem of data that have the split, or
    else `failure`."""
    broken = {str(e): e for e in problems.values() if not isinstance(e, MissingSplit)}
    if not some and len(broken) == 1:
        raise next(iter(broken.values()))
    for where, error in problems.items():
        print(f"{where}: {error}", file=sys.stderr)
    if not some:
        raise DataError(failure)


def understood(config: TaskConfig, split: str) -> list[str]:
    """Prints the columns and files that a pack took from the raw data, with the reasons."""
    task, options = configured_task(config)
    lines = task.load.understood(split, options) if isinstance(task.load, Dataset) else ()
    return [f"  {line}" for line in lines]


def run_show(args: argparse.Namespace) -> None:
    overrides = [*args.overrides, *overrides_of({"options.data": args.where})]
    config = task_config(args.task, overrides)
    claim_files({"--html": args.html}, overwrite=args.overwrite, inputs=data_paths(config.options))
    sheets = []
    problems: dict[str, DataError] = {}
    for split in args.split or find_task(config.name).splits:
        try:
            loaded = load_task(config, split)
        except DataError as e:
            if args.split:
                raise
            problems[split] = e
            continue
        head = [f"{split}: {pluralize(len(loaded.samples), 'sample')}", *understood(config, split)]
        print("\n".join([*head, *describe_samples(loaded.samples)]))
        for k in range(min(SHOWN, len(loaded.samples))):
            print("\n".join(describe_sample(loaded.samples[k])))
        sheets.append((split, loaded.samples))
    report_problems(problems, f"task {config.name}: no split could be loaded", some=bool(sheets))
    if args.html is not None:
        write_sheet(args.html, config.name, sheets)
        print(f"contact sheet: {args.html}")
