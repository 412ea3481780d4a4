"""Rows of the commonest form: a question, a gold answer, perhaps images, each under one of a few column names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from vlrft.data.row import Defect, Picture, Row
from vlrft.data.source import Source, picture, read
from vlrft.schema import DataError

QUESTIONS = ("problem", "question", "prompt")
GOLDS = ("solution", "ground_truth", "answer")
IMAGES = ("images", "image", "image_path")
_TAG = re.compile(r"\s*<answer>(.*)</answer>\s*", re.DOTALL)


def qa_rows(
    source: Source,
    split: str,
    *,
    table: str | None = None,
    gold: Callable[[Mapping[str, Any]], Any] | None = None,
    question: Callable[[Mapping[str, Any]], str] | None = None,
    tags: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda cells: {},
) -> Iterator[Row | Defect]:
    """The rows of a split (of the tables called `table`, where that is another name), with the split in their info.

    A row's id is its `id` cell, else its place. Defects: a question, gold answer or image that is not there.
    """
    files = _by_name(source)
    for number, cells in enumerate(source.rows(table or split)):
        name = str(cells["id"]) if cells.get("id") is not None else f"{split}/{number}"
        try:
            asked = question(cells) if question else str(_first(cells, QUESTIONS))
            answer = gold(cells) if gold else untagged(_first(cells, GOLDS))
            pictures = _pictures(cells, source, files, name)
        except (DataError, KeyError, TypeError, ValueError) as e:
            missing = f"no {e.args[0]}" if isinstance(e, KeyError) else str(e)
            yield Defect(id=name, reason="incomplete row", detail=missing)
            continue
        yield Row(
            id=name,
            question=asked,
            answer=answer,
            pictures=pictures,
            tags=tags(cells),
            info={"split": split},
        )


def untagged(gold: Any) -> Any:
    """The text inside `<answer> … </answer>`, where the gold answer is stored with its tag; anything else as it is."""
    found = _TAG.fullmatch(gold) if isinstance(gold, str) else None
    return found[1].strip() if found else gold


def _first(cells: Mapping[str, Any], names: Sequence[str]) -> Any:
    for name in names:
        if cells.get(name) is not None:
            return cells[name]
    raise KeyError(" or ".join(names))


def _pictures(
    cells: Mapping[str, Any], source: Source, files: Mapping[str, str], name: str
) -> tuple[Picture, ...]:
    """The row's images; a path is found wherever its end lies in the source."""
    found = next((cells[n] for n in IMAGES if cells.get(n) is not None), ())
    many = found if isinstance(found, list | tuple) else [found]
    return tuple(_picture(cell, source, files, name) for cell in many)


def _picture(cell: Any, source: Source, files: Mapping[str, str], name: str) -> Picture:
    if not isinstance(cell, str):
        return picture(cell, source, name)
    place = files.get(PurePosixPath(cell).name, cell)
    return Picture(name=place, read=lambda: read(source, place))


def _by_name(source: Source) -> dict[str, str]:
    """File name without folders -> where it is."""
    return {PurePosixPath(n).name: n for n in source.names()}
