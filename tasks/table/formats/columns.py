"""A table with a column each for question, gold answer and pictures, named by the options or by usual names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from vlrft.data import Cells, Defect, Picture, number_rows, read_row
from vlrft.schema import DataError

from ..answers._cells import show
from ..columns import (
    cell_of,
    is_missing,
)
from ..entry import Entry, Raw, Reading
from ..messages import Conversation, read_conversation
from ._places import Places, find_places

if TYPE_CHECKING:
    from ..options import Options


class Columns:
    """The format of any table; it is asked last."""

    name = "columns"
    doc = "a column each for question, gold answer and pictures"

    def recognises(self, raw: Raw) -> str:
        return "a table" if raw.head else ""

    def read(self, raw: Raw, options: Options) -> Reading:
        if not raw.head:
            raise DataError(f"{raw.source.label}: no table with rows")
        places, taken = find_places(raw, options)
        return Reading(entries=partial(read_entries, raw, places), taken=taken)


FORMAT = Columns()


def read_entries(raw: Raw, places: Places) -> Iterator[Entry | Defect]:
    for number, cells in number_rows(raw.rows()):
        name = f"{raw.name}/{number}"
        if places.name is not None and not is_missing(cell := cell_of(cells, places.name)):
            name = str(cell)
        yield read_row(name, partial(_read_entry, raw, places, cells, name))


def _read_entry(raw: Raw, places: Places, cells: Cells, name: str) -> Entry:
    """Raises KeyError, ValueError or DataError for a row that cannot be used."""
    talk = _conversation(cells, places.question)
    pictures = _pictures(raw, places, cells, talk, name)
    answer = talk.reply if places.answer is None else cell_of(cells, places.answer)
    if is_missing(answer):
        raise KeyError(f"{places.answer or 'reply'}, which is the gold answer")
    return Entry(
        id=name,
        question=talk.question,
        context=talk.context,
        pictures=pictures,
        answer=answer,
        choices=_choices(cells, places.choices),
        columns=cells,
    )


def _conversation(cells: Cells, column: str | None) -> Conversation:
    if column is None:
        return Conversation(question="", context=(), reply=None, pictures=())
    cell = cell_of(cells, column)
    if is_missing(cell):
        raise KeyError(f"{column}, which is the question")
    if isinstance(cell, str):
        return Conversation(question=cell, context=(), reply=None, pictures=())
    return read_conversation(cell)


def _pictures(
    raw: Raw, places: Places, cells: Cells, talk: Conversation, name: str
) -> tuple[Picture, ...]:
    found: list[Picture] = []
    for column in places.images:
        cell = cell_of(cells, column)
        if is_missing(cell) and len(places.images) == 1:
            raise KeyError(
                f"{column}, which is the picture (an empty list means a row without pictures)"
            )
        if not is_missing(cell):
            found += raw.finder.find_all(cell, name)
    if not places.images:
        found += raw.finder.find_all(list(talk.pictures), name)
    return tuple(found)


def _choices(cells: Cells, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The choices of a row: of a list, of a mapping by letter, of a text with a JSON list, or one a column."""
    if len(columns) > 1:
        values = [cell_of(cells, column) for column in columns]
        return tuple(str(v) for v in values if not is_missing(v))
    if not columns:
        return ()
    cell = cell_of(cells, columns[0])
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except (ValueError, RecursionError):
            cell = [line for line in cell.splitlines() if line.strip()]
    if isinstance(cell, Mapping) and set(cell) == {
        "label",
        "text",
    }:  # lists of letters and of texts
        cell = cell["text"]
    if isinstance(cell, Mapping):
        cell = [cell[key] for key in sorted(cell) if cell[key] is not None]
    if not isinstance(cell, list | tuple):
        raise ValueError(f"the choices {show(cell)} are no list")
    return tuple(map(str, cell))
