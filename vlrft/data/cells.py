"""Raw rows of tables: their cells, their numbers, and rows that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Cells = Mapping[str, Any]
"""A raw row of a table: column -> value."""


@dataclass(frozen=True, kw_only=True)
class UnreadableRows:
    """Rows of a table that cannot be read: where and why."""

    place: str  # "train.jsonl, line 3"
    why: str
    rows: int = 1  # 0: an unknown number


class TableRow(dict[str, Any]):
    """The cells of a row, with its place among the rows of its split, those that cannot be read included."""

    number: int


def number_rows(rows: Iterable[Cells]) -> Iterator[tuple[int, Cells]]:
    """Each row with its place in the split, from 0. Rows of a source without tables are counted."""
    for count, cells in enumerate(rows):
        yield getattr(cells, "number", count), cells
