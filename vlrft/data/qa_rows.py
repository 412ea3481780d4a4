"""Rows of the most common form: a question, a gold answer and images if any, each in a column of one of a few names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any

from vlrft.data.cells import Cells, number_rows
from vlrft.data.pictures import parse_picture, read_file
from vlrft.data.row import Defect, Picture, Row, read_row
from vlrft.data.source import Source
from vlrft.schema import DataError

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
    files = _files_by_name(source)

    def read(cells: Cells, name: str) -> Row:
        text = question(cells) if question else str(_first(cells, QUESTION_COLUMNS))
        gold = answer(cells) if answer else strip_answer_tag(_first(cells, ANSWER_COLUMNS))
        pictures = _pictures(cells, source, split, files, name)
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


def _pictures(
    cells: Mapping[str, Any], source: Source, split: str, files: Mapping[str, list[str]], name: str
) -> tuple[Picture, ...]:
    """The row's images; a path may omit leading folders of the source."""
    cell = next((cells[n] for n in IMAGE_COLUMNS if cells.get(n) is not None), ())
    image_cells = cell if isinstance(cell, list | tuple) else [cell]
    return tuple(_picture(image, source, split, files, name) for image in image_cells)


def _picture(
    cell: Any, source: Source, split: str, files: Mapping[str, list[str]], name: str
) -> Picture:
    if not isinstance(cell, str):
        return parse_picture(cell, source, name)
    path = _best_match(cell, split, files.get(PurePosixPath(cell).name, []))
    return Picture(name=path, read=lambda: read_file(source, path))


def _best_match(path: str, split: str, candidates: Sequence[str]) -> str:
    """The candidate that shares the most trailing folders with the path; of several, the one in a folder of the split.

    `candidates`: the source's files of that name. Without any, the path itself. Raises DataError if several match.
    """
    shared = {name: _shared_parts(path, name) for name in candidates}
    best = [name for name in candidates if shared[name] == max(shared.values())]
    if len(best) > 1:
        of_split = [name for name in best if split in PurePosixPath(name).parts]
        if len(of_split) != 1:
            raise DataError(f"{path} may be {best[0]} or {best[1]}")
        return of_split[0]
    return best[0] if best else path


def _shared_parts(one: str, other: str) -> int:
    """The number of equal parts at the end of two paths."""
    pairs = zip(
        reversed(PurePosixPath(one).parts), reversed(PurePosixPath(other).parts), strict=False
    )
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _files_by_name(source: Source) -> dict[str, list[str]]:
    """File name without folders -> the paths of the files with that name."""
    paths: dict[str, list[str]] = {}
    for path in source.names():
        paths.setdefault(PurePosixPath(path).name, []).append(path)
    return paths
