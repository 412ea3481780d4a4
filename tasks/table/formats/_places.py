"""The columns of a table by their roles, found by the options or by usual names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from vlrft.data.picture_cells import names_picture
from vlrft.schema import DataError

from ..answers import kinds
from ..answers._cells import show
from ..columns import (
    ANSWERS,
    CHOICES,
    IMAGES,
    QUESTIONS,
    cell_of,
    find_column,
    is_missing,
    lettered_columns,
    missing_column,
)
from ..entry import Raw, Taken
from ..kind import AnswerKind
from ..messages import is_conversation

if TYPE_CHECKING:
    from ..options import Options


@dataclass(frozen=True, kw_only=True)
class Places:
    """The columns of a table by their roles."""

    question: str | None
    answer: str | None  # None: the reply of the conversation
    images: tuple[str, ...]
    choices: tuple[str, ...]
    name: str | None


def find_places(raw: Raw, options: Options) -> tuple[Places, tuple[Taken, ...]]:
    """The columns, and what was taken and why. Raises DataError where one is missing or ambiguous."""
    kind = kinds()[options.answer] if options.answer is not None else None
    question, q = find_column(
        raw, "question", "question", options.question, QUESTIONS, _no_question
    )
    talks = question is not None and any(is_conversation(cell_of(c, question)) for c in raw.head)
    if question is None and kind is not None and not kind.question:
        raise missing_column(raw, "question", "question", QUESTIONS)
    candidates = (*(kind.columns if kind else ()), *ANSWERS)
    fits = partial(_answer_problem, kind)
    answer, a = find_column(
        raw, "gold answer", "answer_column", options.answer_column, candidates, fits
    )
    if kind is None:
        raise _kind_error(raw, answer)
    if answer is None and not talks:
        raise missing_column(raw, "gold answer", "answer_column", candidates, _other_kinds(raw))
    images, i = _find_images(raw, options)
    choices = find_choices(raw, options, kind)
    name, n = find_name(raw, options)
    taken = [q or Taken(role="question", place=repr(kind.question), why="no column has one")]
    taken.append(a or Taken(role="gold answer", place=str(question), why="the last reply"))
    taken += [i] if i is not None else []
    if choices:
        taken.append(Taken(role="choices", place=", ".join(choices), why="by its name"))
    taken.append(n)
    return (
        Places(question=question, answer=answer, images=images, choices=choices, name=name),
        tuple(taken),
    )


def _no_question(cell: Any) -> str:
    return "" if isinstance(cell, str) or is_conversation(cell) else f"{show(cell)} is no text"


def _answer_problem(kind: AnswerKind | None, cell: Any) -> str:
    if kind is None:
        return ""
    try:
        kind.parse(cell)
    except ValueError as e:
        return str(e)
    return ""


def _kind_error(raw: Raw, answer: str | None) -> DataError:
    """The error of a table without `options.answer`: the kinds that its answers fit."""
    if answer is None:
        names = f"options.answer={' or '.join(kinds())}"
        return DataError(f"{raw.source.label}: say what the gold answers are, {names}")
    cells = [c for row in raw.head if not is_missing(c := cell_of(row, answer))]
    fitting = [
        name
        for name, kind in kinds().items()
        if kind.rewards and not any(_answer_problem(kind, cell) for cell in cells)
    ]
    examples = ", ".join(dict.fromkeys(map(show, cells[:3])))
    return DataError(
        f"{raw.source.label}: say what the gold answers are: column `{answer}` ({examples}) can be options.answer="
        f"{' or '.join([*fitting, 'custom'])}"
    )


def _other_kinds(raw: Raw) -> str:
    """A hint at columns that are the answers of other kinds."""
    names: dict[str, list[str]] = {}
    for kind in kinds().values():
        for column in kind.columns:
            cell = next((c for r in raw.head if not is_missing(c := cell_of(r, column))), None)
            if cell is not None and not _answer_problem(kind, cell):
                names.setdefault(f"`{column}` ({show(cell)})", []).append(kind.name)
    hints = (f"{column} would be options.answer={' or '.join(k)}" for column, k in names.items())
    return "".join(f"; {hint}" for hint in hints)


def _find_images(raw: Raw, options: Options) -> tuple[tuple[str, ...], Taken | None]:
    if isinstance(options.image, tuple):
        for name in options.image:
            find_column(raw, "picture", "image", name, ())
        return options.image, Taken(
            role="pictures", place=", ".join(options.image), why="options.image"
        )
    column, taken = find_column(raw, "picture", "image", options.image, IMAGES, _picture_problem)
    return (column,) if column is not None else (), taken


def _picture_problem(cell: Any) -> str:
    """Why a cell has no picture. Paths are not followed: a file that is not there is its row's defect."""
    items = cell if isinstance(cell, list | tuple) else [cell]
    for item in items:
        named = isinstance(item, Mapping) and ("bytes" in item or "path" in item)
        if not (
            named or isinstance(item, bytes) or (isinstance(item, str) and names_picture(item))
        ):
            return f"{show(item)} is no picture"
    return ""


def find_choices(raw: Raw, options: Options, kind: AnswerKind) -> tuple[str, ...]:
    if isinstance(options.choices, str):
        find_column(raw, "choices", "choices", options.choices, ())
        return (options.choices,)
    # a column whose first cells are empty may be that of a last choice
    for name in options.choices or ():
        if name not in raw.columns and all(cell_of(row, name) is None for row in raw.head):
            raise DataError(
                f"{raw.source.label}: options.choices: no column {name!r}; columns are {', '.join(raw.columns[:16])}"
            )
    if options.choices is not None:
        return options.choices
    if not kind.lettered:
        return ()
    column, _ = find_column(raw, "choices", "choices", None, CHOICES)
    return (column,) if column is not None else lettered_columns(raw.columns)


def refuse_columns(raw: Raw, options: Options, name: str) -> None:
    """Raises DataError for options that name columns, of data in a format without any."""
    for option in ("question", "answer_column", "image", "choices", "thought", "id"):
        if getattr(options, option) is not None:
            raise DataError(
                f"{raw.source.label}: options.{option}: has no effect, as {name} has no columns; leave it out"
            )


def find_name(raw: Raw, options: Options) -> tuple[str | None, Taken]:
    """The column of the rows' names."""
    if options.id is not None:
        column, taken = find_column(raw, "id", "id", options.id, ())
        assert taken is not None
        return column, taken
    cells = [cell_of(row, "id") for row in raw.head]
    texts = [str(c) for c in cells if isinstance(c, str | int)]
    if cells and len(set(texts)) == len(cells):
        return "id", Taken(role="id", place="id", why="the only candidate")
    return None, Taken(role="id", place=f"{raw.name}/0, {raw.name}/1, …", why="no column of names")
