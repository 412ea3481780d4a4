"""Answers that the user's own rewards read, as the table has them."""

from __future__ import annotations

import json
from typing import Any

from vlrft.schema import Sample

from ..columns import cell_of, is_missing
from ..entry import Entry
from ..kind import AnswerKind, Facts, Gold
from ._cells import show


def parse(cell: Any) -> Any:
    try:
        json.dumps(cell)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"the gold answer {show(cell)} cannot be written as JSON") from None
    return cell


def read(entry: Entry, facts: Facts) -> Gold:
    column = facts.options.kinds
    if column is None:
        return Gold(answer=parse(entry.answer))
    kind = cell_of(entry.columns, column)
    if is_missing(kind):
        raise ValueError(f"no {column}, which options.kinds names")
    return Gold(answer=parse(entry.answer), tags={"answer": str(kind).strip()})


def write(sample: Sample) -> str:
    answer = sample.answer
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


KIND = AnswerKind(
    name="custom",
    doc="anything; task.rewards names the rewards that read it",
    parse=parse,
    read=read,
    rewards={},
    strict=(),
    prompt=lambda row: "custom",
    write=write,
)
