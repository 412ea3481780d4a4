"""Columns of a table by their usual names: taken where only one fits, asked for where several do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from vlrft.data import Cells
from vlrft.schema import DataError

from .answers._cells import show
from .entry import Raw, Taken

QUESTIONS = (
    "question",
    "problem",
    "prompt",
    "query",
    "instruction",
    "text",
    "messages",
    "conversations",
)
ANSWERS = (
    "answer",
    "solution",
    "ground_truth",
    "label",
    "target",
    "gold",
    "gt",
    "final_answer",
    "reward_model.ground_truth",
    "extra_info.answer",
)
IMAGES = (
    "image",
    "images",
    "picture",
    "pictures",
    "photo",
    "img",
    "image_path",
    "img_path",
    "image_file",
    "file_name",
    "filename",
    "image_bytes",
    "image_url",
    "path",
    "file",
)
CHOICES = ("choices", "options")
SPELLINGS = ("{}", "option_{}", "choice_{}", "option{}", "choice{}")
MANY = len(ascii_uppercase)  # choices of a question
NUMBERED: Sequence[Sequence[object]] = (
    *(ascii_uppercase, ascii_lowercase),
    *(range(MANY), range(1, MANY + 1)),
)
MOST = 0.5  # share of a column's first cells that must be of the kind for the column to fit

Problem = Callable[[Any], str]
"""A cell -> why it does not fit; an empty string where it does."""


def cell_of(cells: Cells, column: str) -> Any:
    """The cell of a column, or of a nested one: `a.b`; None without it."""
    if column in cells:
        return cells[column]
    value: Any = cells
    for part in column.split("."):
        if not hasattr(value, "get"):
            return None
        value = value.get(part)
    return value


def is_missing(cell: Any) -> bool:
    """Whether a cell is empty: null, not a number, or a text of white space."""
    if isinstance(cell, float):
        return math.isnan(cell)
    return cell is None or (isinstance(cell, str) and not cell.strip())


def find_column(
    raw: Raw,
    role: str,
    option: str,
    wanted: str | None,
    candidates: Iterable[str],
    problem: Problem = lambda cell: "",
) -> tuple[str | None, Taken | None]:
    """The column of a role: the one that the option names, or the only candidate of which most of the first cells fit. None
    where no candidate is in the table. Raises DataError where none fits, and, with their examples, where several do."""
    label = raw.source.label
    if wanted is not None:
        if all(cell_of(cells, wanted) is None for cells in raw.head):
            near = get_close_matches(wanted, raw.columns, 1)
            guess = f"; did you mean {near[0]}?" if near else ""
            raise DataError(
                f"{label}: options.{option}: no column {wanted!r}, or it is empty; columns are {_list(raw.columns)}{guess}"
            )
        return wanted, Taken(role=role, place=wanted, why=f"options.{option}")
    values = {
        name: [c for cells in raw.head if not is_missing(c := cell_of(cells, name))]
        for name in dict.fromkeys(candidates)
    }
    present = {name: cells for name, cells in values.items() if cells}
    fitting = {name: cells for name, cells in present.items() if _fits(cells, problem)}
    different = _without_equals(fitting)
    if len(different) > 1:
        examples = " or ".join(f"`{name}` ({show(cells[0])})" for name, cells in different.items())
        raise DataError(
            f"{label}: the {role} may be {examples}; say which: options.{option}={next(iter(different))}"
        )
    for name in different:
        equal = [n for n in fitting if n != name]
        others = [n for n in present if n not in fitting]
        why = f"equal to {_list(equal)}" if equal else "the only candidate"
        if others:
            why = (
                f"{why}; {_list(others)} cannot be one"
                if equal
                else f"{_list(others)} cannot be one"
            )
        return name, Taken(role=role, place=name, why=why)
    for name, cells in present.items():
        reason = next(filter(None, map(problem, cells)))
        raise DataError(
            f"{label}: no column fits as the {role}: in `{name}` {reason}; name another column with options.{option}=…, "
            "or another kind with options.answer=…"
        )
    return None, None


def _fits(cells: Sequence[Any], problem: Problem) -> bool:
    return sum(not problem(cell) for cell in cells) > MOST * len(cells)


def _without_equals(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The columns without those whose cells are equal to an earlier one's."""
    different: dict[str, list[Any]] = {}
    for name, cells in columns.items():
        if not any(cells == others for others in different.values()):
            different[name] = cells
    return different


def lettered_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of the choices where each has its own, from A, 0 or 1 on: A, B, C; option_a, option_b."""
    for spelling in SPELLINGS:
        for marks in NUMBERED[:1] if spelling == "{}" else NUMBERED:
            names = [spelling.format(mark) for mark in marks]
            count = next((k for k, name in enumerate(names) if name not in columns), len(names))
            if count >= 2:
                return tuple(names[:count])
    return ()


def missing_column(
    raw: Raw, role: str, option: str, candidates: Iterable[str], hint: str = ""
) -> DataError:
    """The error of a table without a column for a role."""
    return DataError(
        f"{raw.source.label}: no column for the {role}: looked for {_list(tuple(dict.fromkeys(candidates)))}; columns are "
        f"{_list(raw.columns)}; name it with options.{option}=…{hint}"
    )


def _list(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:16]) + (" …" if len(listed) > 16 else "")
