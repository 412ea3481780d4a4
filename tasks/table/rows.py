"""The rows of a split: its format is found, its entries are read, and their gold answers are checked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from vlrft.data import Defect, PictureFinder, Row, Source, open_source, read_row
from vlrft.schema import DataError

from .answers import kinds
from .entry import Entry, Raw, Reading
from .formats import find_format
from .kind import AnswerKind, Facts
from .options import Options

HEAD = 100  # rows by which columns and formats are recognised


def read(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """The rows of a split of raw data."""
    raw = open_raw(source, split, options)
    format_, _ = find_format(raw, options.format)
    reading = format_.read(raw, options)
    kind = kinds()[options.answer or reading.kind or "math"]
    facts = Facts(options=options, boxes=reading.boxes or options.box_form, classes=reading.classes)
    for entry in reading.entries():
        if isinstance(entry, Defect):
            yield entry
        else:
            yield read_row(entry.id, partial(make_row, entry, kind, facts, split))


def open_raw(source: Source, split: str, options: Options) -> Raw:
    """The split's raw data with its first rows."""
    rows = partial(source.rows, split)
    try:
        head = tuple(islice(rows(), HEAD))
    except DataError:
        head = ()
    pictures = source if options.images is None else open_source(options.images)
    finder = PictureFinder(pictures, split)
    return Raw(source=source, split=split, name=split, finder=finder, rows=rows, head=head)


def make_row(entry: Entry, kind: AnswerKind, facts: Facts, split: str) -> Row:
    """The entry with its gold answer as the rewards read it. Raises ValueError for one that cannot be read."""
    gold = kind.read(entry, facts)
    return Row(
        id=entry.id,
        question=entry.question,
        answer=gold.answer,
        pictures=entry.pictures,
        tags={**entry.tags, **gold.tags},
        info={"split": split, "kind": kind.name, **gold.info},
    )


__all__ = ["Reading", "make_row", "open_raw", "read"]
