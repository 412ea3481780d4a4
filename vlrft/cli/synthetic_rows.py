"""`vlrft data prepare --synthetic`: rows that a pack makes up, in the form in which its data set is published."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlrft.data import Dataset, Source, notes_of, open_source
from vlrft.data.synthetic import (
    Synthetic,
    describe_rows,
    published_folder,
    thoughts_file,
    write_published,
)
from vlrft.data.thoughts import Thoughts
from vlrft.plugins.find import find_task, task_names
from vlrft.schema import Task
from vlrft.schema.errors import ConfigError, PluginError


@dataclass(frozen=True, kw_only=True)
class SyntheticRows:
    """The rows that a call asks for."""

    synthetic: Synthetic
    count: int  # rows of each split
    seed: int
    out: Path

    def note(self) -> str:
        """The note that the prepared rows keep."""
        return describe_rows(self.count, self.seed)

    def facts(self) -> str:
        """All that decides the rows, apart from the pack's options."""
        return f" synthetic {self.count} {self.seed}"

    def source(self, split: str, options: Any) -> Source:
        """Writes a split in its published form, and opens it with a note that its rows are synthetic."""
        folder = write_published(self.synthetic, split, self.count, self.seed, options, self.out)
        source = open_source(folder, unreadable=[])
        notes_of(source).append(self.note())
        return source

    def thoughts(self, split: str) -> Thoughts | None:
        """The thoughts of a split that `source` has written; None for a pack without any."""
        if self.synthetic.thought is None:
            return None
        return Thoughts.read(thoughts_file(published_folder(self.out, split)))


def find_synthetic_rows(task: Task, args: argparse.Namespace) -> SyntheticRows | None:
    """The rows of `--synthetic`; None without it. Raises ConfigError for a task without a generator, and with `--from`,
    `--count` or `--thoughts`."""
    if args.synthetic is None:
        return None
    generator = generator_of(task)
    if generator is None:
        others = f"; these have one: {', '.join(packs)}" if (packs := synthetic_packs()) else ""
        raise ConfigError(
            [f"--synthetic: task {task.name} has no generator of synthetic rows{others}"]
        )
    if args.out is None:
        raise ConfigError(["vlrft data prepare: say where to write with --out DIR"])
    flags = {"--from": args.where, "--count": args.count, "--thoughts": args.thoughts}
    for flag, value in flags.items():
        if value:
            raise ConfigError(
                [f"{flag}: cannot be combined with --synthetic, which makes the rows"]
            )
    return SyntheticRows(
        synthetic=generator, count=args.synthetic, seed=args.seed or 0, out=args.out
    )


def generator_of(task: Task) -> Synthetic | None:
    """The task's generator of synthetic rows; None for a task without one."""
    return task.load.synthetic if isinstance(task.load, Dataset) else None


def synthetic_packs() -> list[str]:
    """The names of the tasks that have a generator. A task that cannot be loaded is none of them."""
    names = []
    for name in task_names():
        try:
            task = find_task(name)
        except PluginError:
            continue
        if generator_of(task) is not None:
            names.append(name)
    return names
