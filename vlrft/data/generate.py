"""`vlrft data prepare` of a task that makes its data: how much of each split, and the making itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from vlrft.schema import Task
from vlrft.schema.errors import ConfigError

EXAMPLE = "--games train=200"


def generate(task: Task, games: str | None, seed: int, out: Path | None) -> Iterator[str]:
    """What was made, a line each. Raises ConfigError for what was asked for wrongly, before anything is made."""
    if task.generate is None:
        raise ConfigError([f"--games: task {task.name} makes no data of its own; use --from"])
    if games is None:
        raise ConfigError([f"task {task.name} makes its data: say how much, as in {EXAMPLE}"])
    wanted = counts(games, task)
    if out is None:
        raise ConfigError(["vlrft data prepare: say where to write with --out DIR"])
    for split, count in wanted.items():
        yield from task.generate(split, count, seed, out)


def counts(text: str, task: Task) -> Mapping[str, int]:
    """`train=200,test=60` as numbers. Raises ConfigError with every mistake in it."""
    found: dict[str, int] = {}
    mistakes: list[str] = []
    for item in text.split(","):
        split, _, number = item.strip().partition("=")
        if split not in task.splits:
            known = ", ".join(task.splits)
            mistakes.append(f"--games: {split!r} is no split of {task.name}; it has {known}")
        elif split in found:
            mistakes.append(f"--games: {split} stands twice")
        elif not number.isdecimal() or int(number) < 1:
            mistakes.append(f"--games: {item.strip()!r}: expected SPLIT=NUMBER, from 1 on")
        else:
            found[split] = int(number)
    if mistakes:
        raise ConfigError(mistakes)
    return found
