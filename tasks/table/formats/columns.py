"""A table with a column each for question, gold answer and pictures, named by the options or by usual names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

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
    """The choices of a row: of a list, of a mapping by letter or number, of a text with a JSON list, or one a column."""
    if len(columns) > 1:
        return _until_last({column: cell_of(cells, column) for column in columns})
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
        return _until_last({key: cell[key] for key in _in_order(list(cell))})
    if not isinstance(cell, list | tuple):
        raise ValueError(f"the choices {show(cell)} are no list")
    return tuple(map(str, cell))


def _until_last(choices: Mapping[str, Any]) -> tuple[str, ...]:
    """The choices up to the last one that is not empty. Raises ValueError for an empty one before it: without it, the letters
    and numbers of those after it would be others."""
    filled = [name for name, text in choices.items() if not is_missing(text)]
    names = list(choices)[: list(choices).index(filled[-1]) + 1] if filled else []
    empty = next((name for name in names if name not in filled), None)
    if empty is not None:
        raise ValueError(
            f"the choice {empty} is empty, but {filled[-1]} is not; only the last choices of a row may be empty"
        )
    return tuple(str(choices[name]) for name in names)


def _in_order(names: Sequence[str]) -> Sequence[str]:
    """The names of choices in their order, numbers by their value. Raises ValueError where a letter or a number is left out."""
    if all(name.isascii() and name.isdigit() for name in names):
        places = {name: int(name) for name in names}
        first = min(places.values(), default=0)
    elif all(len(name) == 1 and name.upper() in ascii_uppercase for name in names):
        places = {name: ascii_uppercase.index(name.upper()) for name in names}
        first = 0
    else:
        return sorted(names)
    ordered = sorted(names, key=places.__getitem__)
    for place, name in enumerate(ordered, first):
        if places[name] != place:
            raise ValueError(
                f"the choices {', '.join(ordered)} leave one out before {name}; name them in one sequence, from A, 0 or 1 on"
            )
    return ordered
