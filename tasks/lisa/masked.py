"""ReasonSeg in tables with a mask a row, as Seg-Zero's authors copied it: Ricky06662/ReasonSeg_val and ReasonSeg_test.

Each repository has one split, which is called test; the name of the repository says which of ReasonSeg's it holds. The copy has
the first instruction of each picture, and one mask in which ReasonSeg's ignored regions are part of the target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from vlrft.data import (
    Cells,
    Defect,
    Row,
    Source,
    has_tables,
    number_rows,
    parse_picture,
    read_row,
)
from vlrft.data.source import notes_of
from vlrft.schema import DataError
from vlrft.vision.images import open_size
from vlrft.vision.masks import Mask, bounding_box

from .polygons import paint

HELD = re.compile(r"ReasonSeg_(train|val|test)(?![A-Za-z0-9])")
NOTE = (
    "its masks hold ReasonSeg's ignored regions as part of the target, which changes gIoU and cIoU"
)


def holds(source: Source, split: str, options: object = None) -> bool:
    """Whether the source is a copy with masks of this split of ReasonSeg."""
    return _table(source, split) is not None and not _has_annotations(source)


def _has_annotations(source: Source) -> bool:
    return any(name.lower().endswith((".jpg", ".jpeg", ".png")) for name in source.names())


def _table(source: Source, split: str) -> str | None:
    """The split's name in the tables of the source; None where they hold another."""
    held = HELD.findall(source.label)
    if not held:
        return split if source.names() and has_tables(source, split) else None
    if held[-1] != split:
        return None
    return split if source.names() and has_tables(source, split) else "test"


def read_masked(source: Source, split: str, options: Any) -> Iterator[Row | Defect]:
    """One row for each row of the split's tables."""
    notes_of(source).append(f"{source.label}: {NOTE}")
    for number, cells in number_rows(source.rows(_table(source, split) or split)):
        name = f"{split}/{cells.get('image_id') or number}/0"
        yield read_row(name, partial(_read, cells, source, split, name, options))


def _read(cells: Cells, source: Source, split: str, name: str, options: Any) -> Row:
    if options.box != "target":
        raise DataError(f"box: {options.box} needs ReasonSeg's polygons; this copy has masks only")
    picture = parse_picture(cells["image"], source, name)
    size = open_size(picture.read(), picture.name)
    mask = np.asarray(cells["mask"], dtype=np.uint8)
    if mask.shape != (size[1], size[0]):
        raise DataError(f"a mask of shape {mask.shape} for a picture of {size[0]} × {size[1]}")
    target = bounding_box(mask)
    if target is None:
        raise DataError("no target: its mask is empty")
    return Row(
        id=name,
        question=str(cells["text"]),
        answer=list(target),
        pictures=(picture,),
        tags={"answer": "box"},
        info={"split": split, "size": list(size), "target": list(target), "runs": encode(mask)},
    )


def encode(mask: Mask) -> list[int]:
    """The lengths of the runs of 0 and 1 in turn, row by row, beginning with 0."""
    flat = mask.ravel()
    edges = np.flatnonzero(np.diff(flat)) + 1
    runs = np.diff([0, *edges.tolist(), flat.size]).tolist()
    return [0, *runs] if flat[0] else runs


def target_mask(info: Mapping[str, Any]) -> Mask:
    """The target of a row or record: its runs, or its polygons."""
    if "runs" not in info:
        return paint(info["shapes"], info["size"])
    width, height = info["size"]
    values = np.arange(len(info["runs"]), dtype=np.uint8) % 2
    return np.repeat(values, info["runs"]).reshape(height, width)
