"""Rows of the most common form: a question, a gold answer and images if any, each in a column of one of a few names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from vlrft.data.cells import Cells, number_rows
from vlrft.data.picture_cells import PictureFinder
from vlrft.data.row import Defect, Row, read_row
from vlrft.data.source import Source

QUESTION_COLUMNS = ("problem", "question", "prompt")
ANSWER_COLUMNS = ("solution", "ground_truth", "answer")
IMAGE_COLUMNS = ("images", "image", "image_path")
_ANSWER_TAG = re.compile(r"\s*<answer>(.*)</answer>\s*", re.DOTALL)


def read_qa_rows(
    source: Source,
    split: str,
    *,
    table: str | None = None,
    answer: Callable[[Cells], Any] | None = None,
    question: Callable[[Cells], str] | None = None,
    images_required: bool = False,
    tags: Callable[[Cells], Mapping[str, str]] = lambda cells: {},
    info: Sequence[str] = (),
    label: Callable[[int], str] | None = None,
) -> Iterator[Row | Defect]:
    """The rows of a split, with the split and the columns of `info` in their `info`.

    `table`: the name of the split's tables if it is not the split's own. `answer`, `question`, `tags`: read them from a
    row's cells. A row's id is that of `label` for its index; without it its `id` cell, else the split and the index.
    Defects: a missing question or gold answer, and with `images_required` a row without an image.
    """
    finder = PictureFinder(source, split)

    def read(cells: Cells, name: str) -> Row:
        text = question(cells) if question else str(_first(cells, QUESTION_COLUMNS))
        gold = answer(cells) if answer else strip_answer_tag(_first(cells, ANSWER_COLUMNS))
        pictures = finder.find_all(_picture_cell(cells), name)
        if images_required and not pictures:
            raise KeyError(" or ".join(IMAGE_COLUMNS))
        return Row(
            id=name,
            question=text,
            answer=gold,
            pictures=pictures,
            tags=tags(cells),
            info={"split": split, **{k: cells[k] for k in info if cells.get(k) is not None}},
        )

    for number, cells in number_rows(source.rows(table or split)):
        name = label(number) if label else row_name(cells, "id", f"{split}/{number}")
        yield read_row(name, partial(read, cells, name))


def row_name(cells: Cells, column: str, otherwise: str) -> str:
    """A row's name: its cell as text, or `otherwise`."""
    try:
        return otherwise if cells.get(column) is None else str(cells[column])
    except Exception:  # a cell that cannot be printed, such as lists in a thousand lists
        return otherwise


def strip_answer_tag(gold: Any) -> Any:
    """The text inside `<answer> … </answer>` of a gold answer that is stored with its tag; anything else unchanged."""
    match = _ANSWER_TAG.fullmatch(gold) if isinstance(gold, str) else None
    return match[1].strip() if match else gold


def _first(cells: Mapping[str, Any], names: Sequence[str]) -> Any:
    for name in names:
        if cells.get(name) is not None:
            return cells[name]
    raise KeyError(" or ".join(names))


def _picture_cell(cells: Cells) -> Any:
    return next((cells[n] for n in IMAGE_COLUMNS if cells.get(n) is not None), ())
