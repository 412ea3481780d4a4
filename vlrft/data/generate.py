"""`vlrft data prepare` for a task that generates its data: the number of samples of each split, and their generation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vlrft.data.claim import lock_folder
from vlrft.schema import Task
from vlrft.schema.errors import ConfigError


def generate(
    task: Task, count: Sequence[str] | None, seed: int, out: Path | None, options: Any
) -> Iterator[str]:
    """Generates the data of the splits named in `count`, and yields lines of progress. `options`: of the task.

    Raises ConfigError, before anything is written, if the task does not generate data or an argument is missing or wrong.
    """
    if task.generate is None:
        raise ConfigError([f"--count: task {task.name} does not generate data; use --from"])
    if not count:
        raise ConfigError(
            [
                f"task {task.name} generates its data: say how much, as in --count {task.splits[0]}=200"
            ]
        )
    counts = parse_counts(count, task)
    if out is None:
        raise ConfigError(["vlrft data prepare: say where to write with --out DIR"])
    with lock_folder(out):
        for split, number in counts.items():
            yield from task.generate(split, number, seed, out, options)


def parse_counts(texts: Sequence[str], task: Task) -> Mapping[str, int]:
    """`["train=200,test=60", "val=20"]` as a number for each split. Raises ConfigError with every mistake."""
    counts: dict[str, int] = {}
    mistakes: list[str] = []
    for item in (item.strip() for text in texts for item in text.split(",")):
        split, _, number = item.partition("=")
        if split not in task.splits:
            splits = ", ".join(task.splits)
            mistakes.append(f"--count: task {task.name} has no split {split!r}; it has {splits}")
        elif split in counts:
            mistakes.append(f"--count: {split} is given twice")
        elif not number.isdecimal() or int(number) < 1:
            mistakes.append(f"--count: {item!r}: expected SPLIT=N with N at least 1")
        else:
            counts[split] = int(number)
    if mistakes:
        raise ConfigError(mistakes)
    return counts
