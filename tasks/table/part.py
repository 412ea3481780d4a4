"""The rows of a split in its tables: all of them, or those with its name in a column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from vlrft.data import Cells, Source
from vlrft.data.source import notes_of
from vlrft.schema import DataError
from vlrft.schema.pluralize import pluralize

SHOWN = 8  # values in a note


@dataclass(frozen=True, kw_only=True)
class Part:
    """Where the rows of a split are."""

    source: Source
    split: str | None  # its name at the source
    column: str | None = None
    values: frozenset[str] = frozenset()  # of the column
    known: frozenset[str] | None = None
    """Values that some split has; None: rows with others are not counted."""
    share: bool | None = None  # True: the drawn share of the rows; False: the others; None: all
    why: str

    def rows(self) -> Iterator[Cells]:
        """The rows of its tables. The source receives a note on those that are in no split. Raises DataError where there is no
        table."""
        if self.split is None:
            raise DataError(f"{self.source.label}: no table")
        left_out: Counter[str] = Counter()
        for cells in self.source.rows(self.split):
            value = None if self.column is None else str(cells.get(self.column))
            if value is None or value in self.values:
                yield cells
            elif self.known is not None and value not in self.known:
                left_out[value] += 1
        if left_out:
            shown = ", ".join(list(left_out)[:SHOWN]) + (" …" if len(left_out) > SHOWN else "")
            rows = pluralize(left_out.total(), "row")
            notes_of(self.source).append(
                f"{rows} with {shown} in column {self.column!r} not used: no split has that name; options.splits gives it one"
            )
