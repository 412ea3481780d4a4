"""Rows of the commonest form: a question, a gold answer, perhaps images, each under one of a few column names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
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
    seen: bool = False,
    tags: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda cells: {},
    info: Sequence[str] = (),
) -> Iterator[Row | Defect]:
    """The rows of a split (of the tables called `table`, where that is another name), with the split in their info,
    and the columns that `info` names.

    A row's id is its `id` cell, else its place. Defects: a question or gold answer that is not there, and where the
    questions are about something `seen`, an image that is not named.
    """
    files = _by_name(source)
    for number, cells in enumerate(source.rows(table or split)):
        name = str(cells["id"]) if cells.get("id") is not None else f"{split}/{number}"
        try:
            asked = question(cells) if question else str(_first(cells, QUESTIONS))
            answer = gold(cells) if gold else untagged(_first(cells, GOLDS))
            pictures = _pictures(cells, source, split, files, name)
            if seen and not pictures:
                raise KeyError(" or ".join(IMAGES))
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
            info={"split": split, **{k: cells[k] for k in info if cells.get(k) is not None}},
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
    cells: Mapping[str, Any], source: Source, split: str, files: Mapping[str, list[str]], name: str
) -> tuple[Picture, ...]:
    """The row's images; a path is found wherever its end lies in the source."""
    found = next((cells[n] for n in IMAGES if cells.get(n) is not None), ())
    many = found if isinstance(found, list | tuple) else [found]
    return tuple(_picture(cell, source, split, files, name) for cell in many)


def _picture(
    cell: Any, source: Source, split: str, files: Mapping[str, list[str]], name: str
) -> Picture:
    if not isinstance(cell, str):
        return picture(cell, source, name)
    place = _place(cell, split, files.get(PurePosixPath(cell).name, []))
    return Picture(name=place, read=lambda: read(source, place))


def _place(path: str, split: str, found: Sequence[str]) -> str:
    """Of the files of that name the one whose folders agree longest, from the end; of several the split's own.

    Raises DataError when that is not one.
    """
    shared = {name: _shared(path, name) for name in found}
    best = [name for name in found if shared[name] == max(shared.values())]
    own = [name for name in best if split in PurePosixPath(name).parts] if len(best) > 1 else best
    if len(best) > 1 and len(own) != 1:
        raise DataError(f"{path} may be {best[0]} or {best[1]}")
    return own[0] if own else path


def _shared(one: str, other: str) -> int:
    """How many of the last parts of two paths are equal."""
    pairs = zip(
        reversed(PurePosixPath(one).parts), reversed(PurePosixPath(other).parts), strict=False
    )
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _by_name(source: Source) -> dict[str, list[str]]:
    """File name without folders -> where there is one."""
    found: dict[str, list[str]] = {}
    for name in source.names():
        found.setdefault(PurePosixPath(name).name, []).append(name)
    return found
