"""Free texts: a sentence or a few words, or several of which each is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vlrft.grading import MAX_ANSWER
from vlrft.grading.metrics import accuracy
from vlrft.schema import Metric, Record

from ..entry import Entry
from ..kind import AnswerKind, Facts, Gold
from ._cells import read_text, show, strip_tags


def parse(cell: Any) -> str | list[str]:
    value = strip_tags(cell)
    texts = [read_text(item) for item in value] if isinstance(value, list) else [read_text(value)]
    if not texts:
        raise ValueError("the gold answer is an empty list")
    for text in texts:
        if len(text) > MAX_ANSWER or not any(map(str.isalnum, text)):
            raise ValueError(
                f"the gold answer {show(text)} is no text of 1 to {MAX_ANSWER} characters with a word in it"
            )
    return texts if isinstance(value, list) else texts[0]


def read(entry: Entry, facts: Facts) -> Gold:
    return Gold(answer=parse(entry.answer), tags={"answer": "text"})


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """The mean F1 of words."""
    return {"F1": accuracy(records, grader)}


KIND = AnswerKind(
    name="text",
    doc="a text, or a list of texts of which each is right",
    parse=parse,
    read=read,
    rewards={"text_overlap.f1": 1.0, "format": 1.0},
    strict=("text_overlap.f1",),
    prompt=lambda row: "text",
    write=lambda s: str(s.answer[0] if isinstance(s.answer, list) else s.answer),
    metrics=metrics,
    columns=("answers", "caption", "response", "output"),
)
