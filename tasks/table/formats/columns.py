"""A table with a column each for question, gold answer and picture."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from vlrft.data import Cells, Defect, number_rows, read_row, row_name

from ..entry import Entry, Raw, Reading

if TYPE_CHECKING:
    from ..options import Options


class Columns:
    """The format of any table; it is asked last."""

    name = "columns"
    doc = "a column each for question, gold answer and picture"

    def recognises(self, raw: Raw) -> str:
        return "a table" if raw.head else ""

    def read(self, raw: Raw, options: Options) -> Reading:
        question, answer, image = options.question, options.answer_column, options.image

        def entry(cells: Cells, name: str) -> Entry:
            picture = cells.get(image) if isinstance(image, str) else None
            return Entry(
                id=name,
                question=str(cells[question or "question"]),
                answer=cells[answer or "answer"],
                pictures=() if picture is None else raw.finder.find_all(picture, name),
                columns=cells,
            )

        def entries() -> Iterator[Entry | Defect]:
            for number, cells in number_rows(raw.rows()):
                name = row_name(cells, "id", f"{raw.name}/{number}")
                yield read_row(name, partial(entry, cells, name))

        return Reading(entries=entries)


FORMAT = Columns()
