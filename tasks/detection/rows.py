"""Rows of detection in each of their published forms: Visual-RFT's sets, and COCO annotation files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from vlrft.data import (
    Cells,
    Defect,
    Layout,
    Layouts,
    PictureFinder,
    Row,
    Source,
    number_rows,
    open_source,
    read_row,
    strip_answer_tag,
)
from vlrft.data.layouts import has_tables
from vlrft.grading import read_detections
from vlrft.schema import DataError
from vlrft.vision.boxes import rescale
from vlrft.vision.images import open_size

from .annotations import find_annotations, read_annotated
from .options import Options
from .targets import NONE, Target, make_row

_CATEGORY = re.compile(r"category '([^'\n]+)'")


def _read_released(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """Visual-RFT's rows: image (or image_path), problem, solution."""
    finder = PictureFinder(open_source(options.images) if options.images else source, split)
    for number, cells in number_rows(source.rows(split)):
        name = f"{split}/{number}"
        yield read_row(name, partial(_released_row, cells, name, split, finder))


def _released_row(cells: Cells, name: str, split: str, finder: PictureFinder) -> Row:
    problem = str(cells["problem"])
    category = _CATEGORY.search(problem)
    if category is None:
        raise DataError("its problem names no category '…'")
    picture = finder.find(cells["image"] if "image" in cells else cells["image_path"], name)
    size = open_size(picture.read(), picture.name)
    text = str(strip_answer_tag(cells["solution"])).strip()
    detections = [] if text == NONE else read_detections(text)
    if detections is None:
        raise DataError(f"its solution is no list of Position and Confidence: {text[:80]!r}")
    boxes = [rescale(box, (1000, 1000), size) for box, _ in detections]
    targets = [Target(box=b, area=(b[2] - b[0]) * (b[3] - b[1])) for b in boxes]
    return make_row(name, split, picture, size, category[1], targets, problem)


read = Layouts(
    (
        Layout(
            name="a json file of the split with images, annotations, categories (COCO, LVIS)",
            found=lambda source, split, options: find_annotations(source, split) is not None,
            read=read_annotated,
        ),
        Layout(
            name="SPLIT-*.parquet with image, problem, solution (Visual-RFT's sets)",
            found=has_tables,
            read=_read_released,
        ),
    )
)
