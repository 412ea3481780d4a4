"""Rows of the most common form: a question, a gold answer and images if any, each in a column of one of a few names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from vlrft.data.cells import Cells, number_rows
from vlrft.data.gold_columns import ANSWER_COLUMNS, GoldColumns
from vlrft.data.picture_cells import PictureFinder
from vlrft.data.row import Defect, Row, read_row
from vlrft.data.source import Source, notes_of

QUESTION_COLUMNS = ("problem", "question", "prompt")
IMAGE_COLUMNS = ("images", "image", "image_path")


def read_qa_rows(
    source: Source,
    split: str,
    *,
    table: str | None = None,
    gold: Sequence[str] | None = None,
    answer: Callable[[Cells], Any] | None = None,
    question: Callable[[Cells], str] | None = None,
    images_required: bool = False,
    tags: Callable[[Cells], Mapping[str, str]] = lambda cells: {},
    info: Sequence[str] = (),
    label: Callable[[int], str] | None = None,
) -> Iterator[Row | Defect]:
    """The rows of a split, with the split and the columns of `info` in their `info`.

    `table`: the name of the split's tables if it is not the split's own. `gold`: the columns of the gold answer, of which a
    row's first is taken; unless given, `ANSWER_COLUMNS`, and the source receives a note where several have one. `answer`,
    `question`, `tags`: read them from a row's cells. A row's id is that of `label` for its index; without it its `id` cell, else the split and the index.
    Defects: a missing question or gold answer, and with `images_required` a row without an image.
    """
    finder = PictureFinder(source, split)
    columns = GoldColumns(gold or ANSWER_COLUMNS, guessed=gold is None)

    def read(cells: Cells, name: str) -> Row:
        text = question(cells) if question else str(_first(cells, QUESTION_COLUMNS))
        gold_answer = answer(cells) if answer else columns.take(cells)
        pictures = finder.find_all(_picture_cell(cells), name)
        if images_required and not pictures:
            raise KeyError(" or ".join(IMAGE_COLUMNS))
        return Row(
            id=name,
            question=text,
            answer=gold_answer,
            pictures=pictures,
            tags=tags(cells),
            info={"split": split, **{k: cells[k] for k in info if cells.get(k) is not None}},
        )

    for number, cells in number_rows(source.rows(table or split)):
        name = label(number) if label else row_name(cells, "id", f"{split}/{number}")
        yield read_row(name, partial(read, cells, name))
    notes_of(source).extend(columns.notes())


def row_name(cells: Cells, column: str, otherwise: str) -> str:
    """A row's name: its cell as text, or `otherwise`."""
    try:
        return otherwise if cells.get(column) is None else str(cells[column])
    except Exception:  # a cell that cannot be printed, such as lists in a thousand lists
        return otherwise


def _first(cells: Mapping[str, Any], names: Sequence[str]) -> Any:
    for name in names:
        if cells.get(name) is not None:
            return cells[name]
    raise KeyError(" or ".join(names))


def _picture_cell(cells: Cells) -> Any:
    return next((cells[n] for n in IMAGE_COLUMNS if cells.get(n) is not None), ())
