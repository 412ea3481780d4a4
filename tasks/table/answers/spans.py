"""Spans of time: start and end in seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from vlrft.grading.metrics import accuracy, share_above
from vlrft.schema import Metric, Record

from ..entry import Entry
from ..kind import AnswerKind, Facts, Gold
from ._cells import read_numbers, show, strip_tags

_SPAN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s?(?:-|,|to)\s?([0-9]{1,9}(?:\.[0-9]{1,9})?)")


def parse(cell: Any) -> list[float]:
    value = strip_tags(cell)
    if isinstance(value, Mapping) and {"start", "end"} <= value.keys():
        value = [value["start"], value["end"]]
    numbers = read_numbers(value)
    match = _SPAN.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        numbers = [float(match[1]), float(match[2])]
    if numbers is None or len(numbers) != 2 or not 0 <= numbers[0] < numbers[1] < 1e9:
        raise ValueError(
            f"the gold answer {show(cell)} is no span of seconds; expected two numbers, such as [1.5, 4]"
        )
    return numbers


def read(entry: Entry, facts: Facts) -> Gold:
    return Gold(answer=parse(entry.answer), tags={"answer": "segment"})


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    return {
        "mIoU": accuracy(records, grader, threshold=0.5),
        "R@0.5": share_above(records, grader, 0.5),
    }


KIND = AnswerKind(
    name="span",
    doc="start and end in seconds",
    parse=parse,
    read=read,
    rewards={"temporal_iou": 1.0, "format": 1.0},
    strict=("temporal_iou",),
    prompt=lambda row: "span",
    write=lambda s: "{:.9g}, {:.9g}".format(*s.answer),
    metrics=metrics,
    columns=("span", "segment", "timestamps"),
)
