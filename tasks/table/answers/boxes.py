"""Boxes and points in a picture, in any convention that the options or the format state; golds are in thousandths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vlrft.data import Row
from vlrft.grading.metrics import accuracy, share_above
from vlrft.schema import DataError, Metric, Record, Sample
from vlrft.vision.boxes import THOUSAND, Box, rescale, round_box

from ..box_cells import (
    BoxCell,
    conventions,
    parse_box,
    parse_boxes,
    parse_point,
    stated_corners,
    to_thousandths,
)
from ..entry import BoxForm, Entry
from ..kind import AnswerKind, Facts, Gold
from ._cells import show

UNITS = ("box_unit", "box_corners")  # options


def prepare(entries: Sequence[Entry], facts: Facts, label: str) -> Facts:
    """Boxes are of one convention, which the format or the options state; it is never guessed."""
    if facts.boxes is not None:
        return facts
    options = facts.options
    stated = stated_corners(entries)
    if options.box_unit is not None and stated is not None:
        return replace(facts, boxes=BoxForm(unit=options.box_unit, corners=stated))
    example = next((e for e in entries if e.answer is not None), None)
    shown = "" if example is None else f" ({show(example.answer)} in {example.id})"
    fitting = conventions(entries, options)
    missing = [
        f"options.{key}={values}"
        for key, values in (
            ("box_unit", "pixels, resized, thousandths or normalised"),
            ("box_corners", "xyxy or xywh"),
        )
        if getattr(options, key) is None and not (key == "box_corners" and stated)
    ]
    fits = f"; the first rows fit {', '.join(fitting)}" if fitting else ""
    raise DataError(f"{label}: say how the boxes are written{shown}: {' and '.join(missing)}{fits}")


def read_box(entry: Entry, facts: Facts) -> Gold:
    box, info = to_thousandths(entry, facts, parse_box(entry.answer))
    return Gold(answer=box, tags={"answer": "box"}, info=info)


def read_boxes(entry: Entry, facts: Facts) -> Gold:
    boxes: list[list[int]] = []
    info: dict[str, Any] = {}
    for cell in parse_boxes(entry.answer):
        box, info = to_thousandths(entry, facts, cell)
        boxes.append(box)
    return Gold(answer=boxes, tags={"answer": "boxes"}, info=info)


def read_point(entry: Entry, facts: Facts) -> Gold:
    """The box to point into: the gold box, or `options.radius` around a gold point."""
    cell = parse_point(entry.answer)
    if isinstance(cell, BoxCell):
        box, info = to_thousandths(entry, facts, cell)
        return Gold(answer=box, tags={"answer": "point"}, info=info)
    radius = facts.options.radius
    if radius is None:
        raise ValueError(
            f"the gold answer {show(entry.answer)} is a point: say how near a right point is, in thousandths of the "
            "picture, such as options.radius=25"
        )
    x, y = cell
    tiny = BoxCell(numbers=(x, y, x, y), corners="xyxy")
    (x1, y1, _, _), info = to_thousandths(entry, facts, tiny, area=False)
    sides = (
        max(x1 - radius, 0),
        max(y1 - radius, 0),
        min(x1 + radius, THOUSAND),
        min(y1 + radius, THOUSAND),
    )
    return Gold(answer=list(sides), tags={"answer": "point"}, info=info)


def write_box(sample: Sample, box: Box) -> str:
    """A box in the unit that the prompt asks for."""
    if "frame" in sample.info:
        width, height = sample.info["frame"]
        box = round_box(rescale(box, (THOUSAND, THOUSAND), (width, height)))
    return "({:g},{:g}),({:g},{:g})".format(*box)


def write_point(sample: Sample) -> str:
    x1, y1, x2, y2 = sample.answer
    return f"({(x1 + x2) / 2:.9g},{(y1 + y2) / 2:.9g})"


def box_metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    return {
        "mIoU": accuracy(records, grader, threshold=0.5),
        "Acc@0.5": share_above(records, grader, 0.5),
        "Acc@0.7": share_above(records, grader, 0.7),
    }


def boxes_metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """The mean overlap of the best matching of all boxes of a picture."""
    return {"matched IoU": accuracy(records, grader, threshold=0.5)}


def template(name: str) -> Any:
    def prompt(row: Row) -> str:
        return name

    return prompt


BOX = AnswerKind(
    name="box",
    doc="one box: four numbers, or a mapping of corners or sides",
    parse=parse_box,
    read=read_box,
    rewards={"boxes": 1.0, "format": 1.0},
    strict=("boxes",),
    prompt=template("box"),
    write=lambda s: write_box(s, tuple(s.answer)),
    metrics=box_metrics,
    detail="box",
    columns=("bbox", "box", "bbox_2d"),
    prepare=prepare,
    resized=True,
    options=UNITS,
)
KIND = (
    BOX,
    replace(
        BOX,
        name="boxes",
        doc="a list of boxes",
        parse=parse_boxes,
        read=read_boxes,
        rewards={"boxes.matched": 1.0, "format": 1.0},
        strict=("boxes.matched",),
        prompt=template("boxes"),
        write=lambda s: "\n".join(write_box(s, tuple(box)) for box in s.answer),
        metrics=boxes_metrics,
        detail=None,
        columns=("boxes", "bboxes", "objects.bbox"),
    ),
    replace(
        BOX,
        name="point",
        doc="a point, or the box to point into",
        parse=parse_point,
        read=read_point,
        rewards={"point": 1.0, "format": 1.0},
        strict=("point",),
        prompt=template("point"),
        write=write_point,
        metrics=None,
        detail=None,
        columns=("point", "click", "bbox", "box"),
        resized=False,
        options=(*UNITS, "radius"),
    ),
)
