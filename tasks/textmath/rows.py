"""The rows of the sets that the options name, from a folder, the hub or a prepared split."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

from vlrft.data import Defect, Row, Source, notes_of, open_source, read_qa_rows, read_row
from vlrft.schema import DataError

from .options import Options
from .places import Place, locate
from .sets import SETS, held_out

T = TypeVar("T")


def read(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """Training rows of one set; test rows of all sets, alternating, so that the first rows cover every set.

    A question that occurs twice in its set is left out.
    """
    sets = options.sets(split)
    yield from alternate(_without_duplicates(_read_set(source, split, n, options)) for n in sets)


def alternate(iterators: Iterable[Iterator[T]]) -> Iterator[T]:
    """One item of each iterator in turn, until all are exhausted."""
    waiting = deque(iterators)
    while waiting:
        iterator = waiting.popleft()
        for item in islice(iterator, 1):
            yield item
            waiting.append(iterator)


def select_rows(rows: Iterable[Row], split: str, options: Options) -> Iterator[Row]:
    """The rows of a prepared split that belong to the sets and levels of the options.

    Raises DataError if a set is absent.
    """
    absent, present = set(options.sets(split)), set[str]()
    for row in rows:
        name = row.tags["kind"]
        absent.discard(name)
        present.add(name)
        if name in options.sets(split) and _has_level(row, options):
            yield row
    if absent:
        raise DataError(
            f"the {split} split was prepared without {', '.join(sorted(absent))}; it has {', '.join(sorted(present))}"
        )


def _read_set(source: Source, split: str, name: str, options: Options) -> Iterator[Row | Defect]:
    """Raises DataError if the set has no such split, or is not found in the source."""
    text_set = SETS[name]
    if text_set.splits and split not in text_set.splits:
        raise DataError(f"{name} has no {split} rows; use it for {next(iter(text_set.splits))}")
    place = _locate(source, split, name, options)
    if place.by_hash:
        notes_of(source).append(
            f"{name} has no published splits here: one row in ten, by the hash of its question, is in the test split, and "
            "the others are the train split"
        )
    rows = read_qa_rows(
        place.source,
        split,
        table=place.table,
        answer=text_set.answer,
        question=text_set.question,
        tags=lambda cells: {"kind": name, "answer": text_set.kind, **text_set.tags(cells)},
        info=("solution",),  # for open-r1's grader
        label=lambda number: f"{name}/{split}/{number}",
    )

    def choose(row: Row) -> Row | Defect | None:
        if not _has_level(row, options):
            return Defect(id=row.id, reason="another level", intended=True)
        return row if not place.by_hash or held_out(row.question) == (split == "test") else None

    for row in rows:
        item = row if isinstance(row, Defect) else read_row(row.id, partial(choose, row))
        if item is not None:
            yield item


def _locate(source: Source, split: str, name: str, options: Options) -> Place:
    text_set = SETS[name]
    if options.data is not None:
        alone = len(options.sets(split)) == 1
        return locate(source, split, name, text_set, alone=alone)
    if text_set.hub is None:
        raise DataError(f"{name} is not on the hub; give a folder with it as data=PATH")
    published = text_set.splits.get(split, "train")
    return Place(source=open_source(text_set.hub), table=published, by_hash=not text_set.splits)


def _has_level(row: Row, options: Options) -> bool:
    """Whether the row is of one of the levels that the options ask for."""
    if not options.levels:
        return True
    digits = "".join(c for c in row.tags.get("level") or "" if c.isdigit())
    return bool(digits) and options.levels[0] <= int(digits) <= options.levels[1]


def _without_duplicates(rows: Iterable[Row | Defect]) -> Iterator[Row | Defect]:
    questions: set[str] = set()
    for row in rows:
        if isinstance(row, Row) and row.question in questions:
            yield Defect(id=row.id, reason="duplicate question", intended=True)
            continue
        if isinstance(row, Row):
            questions.add(row.question)
        yield row
