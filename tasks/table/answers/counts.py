"""Counts: whole numbers from 0 on."""

from __future__ import annotations

from typing import Any

from vlrft.grading import read_integer

from ..entry import Entry
from ..kind import AnswerKind, Facts, Gold
from ._cells import read_text, show


def parse(cell: Any) -> int:
    number = read_integer(read_text(cell))
    if number is None or number < 0:
        raise ValueError(f"the gold answer {show(cell)} is not a whole number of at least 0")
    return number


def read(entry: Entry, facts: Facts) -> Gold:
    return Gold(answer=parse(entry.answer), tags={"answer": "count"})


KIND = AnswerKind(
    name="count",
    doc="a whole number",
    parse=parse,
    read=read,
    rewards={"count": 1.0, "format": 1.0},
    strict=("count",),
    prompt=lambda row: "count",
    columns=("count", "number"),
)
