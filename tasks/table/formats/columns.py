"""A table with a column each for question, gold answer and pictures, named by the options or by usual names."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from string import ascii_letters, ascii_uppercase, digits
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

_STEMS = ("option", "choice")  # before a letter without a sign between them
LISTS = {"label", "text"}  # keys of choices as a list of letters and one of texts
MAX_DIGITS = 9  # of a number in the name of a choice


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
        name = row_label(raw, number, cells, places.name)
        yield read_row(name, partial(_read_entry, raw, places, cells, name))


def row_label(raw: Raw, number: int, cells: Cells, column: str | None) -> str:
    """The name of a row: its cell of a column, otherwise split and number."""
    cell = None if column is None else cell_of(cells, column)
    return f"{raw.name}/{number}" if is_missing(cell) else str(cell)


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
    """The choices of a row: of a list, of a mapping by letter or number, of a text with a list, or one a column."""
    if len(columns) > 1:
        return _until_last({column: cell_of(cells, column) for column in columns})
    if not columns:
        return ()
    cell = cell_of(cells, columns[0])
    if isinstance(cell, str):
        cell = _parse_choices(cell)
    if isinstance(cell, Mapping) and set(cell) == LISTS:
        cell = cell["text"]
    if isinstance(cell, Mapping):
        return _until_last({key: cell[key] for key in _in_order(list(cell))})
    if not isinstance(cell, list | tuple):
        raise ValueError(f"the choices {show(cell)} are no list")
    return _until_last({str(number): text for number, text in enumerate(cell, 1)})


def _parse_choices(text: str) -> Any:
    """The value of a text in JSON or as Python writes a list, such as MMMU's `['a', 'b']`; otherwise its lines."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return [line for line in text.splitlines() if line.strip()]


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
    """The names of choices in their order, those that end with numbers by their values; names without letters and numbers as
    they are written. Raises ValueError where a letter or a number is left out."""
    marks = _marks(names)
    if marks is None:
        return names
    if all(map(str.isdigit, marks)):
        places = dict(zip(names, map(int, marks), strict=True))
        first = min(places.values(), default=0)
    else:
        places = dict(zip(names, map(ascii_uppercase.index, marks), strict=True))
        first = 0
    ordered = sorted(names, key=places.__getitem__)
    for place, name in enumerate(ordered, first):
        if places[name] != place:
            raise ValueError(
                f"the choices {', '.join(ordered)} leave one out before {name}; name them in one sequence, from A, 0 or 1 on"
            )
    return ordered


def _marks(names: Sequence[str]) -> Sequence[str] | None:
    """The letters or the numbers by which names differ: B of `B` and of `choice_b`, 10 of `option_10`; None for other names."""
    for split in (_split_number, _split_letter):
        parts = [split(name) for name in names]
        if all(mark for _, mark in parts) and len({stem for stem, _ in parts}) == 1:
            return [mark.upper() for _, mark in parts]
    return None


def _split_number(name: str) -> tuple[str, str]:
    """A name and the number at its end; "" for none."""
    stem = name.rstrip(digits)
    number = name[len(stem) :]
    return stem, number if len(number) <= MAX_DIGITS else ""


def _split_letter(name: str) -> tuple[str, str]:
    """A name and the letter at its end; "" where that is a part of a word."""
    stem, letter = name[:-1], name[-1:]
    alone = not stem[-1:].isalpha() or stem.casefold() in _STEMS
    return stem, letter if alone and letter in ascii_letters else ""
