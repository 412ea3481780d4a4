"""The rows of the sets that the options name, from a folder, the hub or a prepared split."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import PurePosixPath
from typing import TypeVar

from vlrft.data import Defect, Row, Source, Within, open_source, qa_rows
from vlrft.schema import DataError

from .options import Options
from .sets import SETS, TextSet, held_out

T = TypeVar("T")


def read(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """Training rows of one set, test rows of each in turn, so that the first rows are of every set;
    a question that comes twice in its set is left out."""
    sets = options.sets(split)
    yield from in_turn(_without_doubles(_of_set(source, split, n, options)) for n in sets)


def in_turn(many: Iterable[Iterator[T]]) -> Iterator[T]:
    """One of each, again and again, until all are at their end."""
    waiting = deque(many)
    while waiting:
        one = waiting.popleft()
        for item in islice(one, 1):
            yield item
            waiting.append(one)


def chosen(rows: Iterable[Row], split: str, options: Options) -> Iterator[Row]:
    """Of a prepared split the sets and levels that the options name. Raises DataError for an absent set."""
    absent, seen = set(options.sets(split)), set[str]()
    for row in rows:
        name = row.tags["kind"]
        absent.discard(name)
        seen.add(name)
        asked = name in options.sets(split)
        if asked and not (options.levels and not _within(row.tags.get("level"), options.levels)):
            yield row
    if absent:
        raise DataError(
            f"the {split} split was prepared without {', '.join(sorted(absent))}; it has {', '.join(sorted(seen))}"
        )


def _of_set(source: Source, split: str, name: str, options: Options) -> Iterator[Row | Defect]:
    """Raises DataError when the set has no such rows, or is not where it should be."""
    known = SETS[name]
    if known.splits and split not in known.splits:
        raise DataError(f"{name} has no {split} rows; use it for {next(iter(known.splits))}")
    own, table, by_hash = _place(source, split, name, known, options)
    rows = qa_rows(
        own,
        split,
        table=table,
        gold=known.gold,
        question=known.question,
        tags=lambda cells: {"kind": name, "answer": known.kind, **known.tags(cells)},
        info=("solution",),  # which open-r1's grader reads
    )
    for number, row in enumerate(rows):
        label = f"{name}/{split}/{number}"
        if isinstance(row, Defect):
            yield Defect(id=label, reason=row.reason, detail=row.detail)
        elif options.levels and not _within(row.tags.get("level"), options.levels):
            yield Defect(id=label, reason="another level", intended=True)
        elif not by_hash or held_out(row.question) == (split == "test"):
            yield replace(row, id=label)


def _place(
    source: Source, split: str, name: str, known: TextSet, options: Options
) -> tuple[Source, str, bool]:
    """Where the set is, what its table is called there, and whether its splits are to be told by
    hash."""
    if options.data is None:
        if known.hub is None:
            raise DataError(f"{name} is not on the hub; give a folder with it as data=PATH")
        return open_source(known.hub), known.splits.get(split, "train"), not known.splits
    if any(n.startswith(f"{name}/") for n in source.names()):
        return Within(source, name), split, False
    stems = {PurePosixPath(n).stem for n in source.names()}
    for own in (name, *known.files):
        if own in stems:
            return source, own, len(known.splits) != 1
    raise DataError(
        f"{source.label}: no table of {name}; expected {name}.jsonl or {name}/{split}.jsonl"
    )


def _within(level: str | None, levels: tuple[int, int]) -> bool:
    digits = "".join(c for c in level or "" if c.isdigit())
    return bool(digits) and levels[0] <= int(digits) <= levels[1]


def _without_doubles(rows: Iterable[Row | Defect]) -> Iterator[Row | Defect]:
    seen: set[str] = set()
    for row in rows:
        if isinstance(row, Row) and row.question in seen:
            yield Defect(id=row.id, reason="duplicate question", intended=True)
            continue
        if isinstance(row, Row):
            seen.add(row.question)
        yield row
