"""Mathematical answers: a number, an expression, a tuple, a set, each with its unit if any."""

from __future__ import annotations

from typing import Any

from vlrft.grading import read_boxed

from ..entry import Entry
from ..kind import AnswerKind, Facts, Gold
from ._cells import read_text, show, strip_tags

FINAL = "####"  # GSM8K's mark of the answer, after its derivation


def parse(cell: Any) -> str | list[str]:
    """One right answer, or a list of texts each of which is right."""
    value = strip_tags(cell)
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return [read_text(item) for item in value]
    if isinstance(value, list | tuple | dict):
        raise ValueError(
            f"the gold answer {show(value)} is neither a text nor a number; for boxes use options.answer=box"
        )
    text = read_text(cell)
    if FINAL in text:
        text = text.rpartition(FINAL)[2].strip()
    return read_boxed(text) or text


def read(entry: Entry, facts: Facts) -> Gold:
    return Gold(answer=parse(entry.answer), tags={"answer": "math"})


KIND = AnswerKind(
    name="math",
    doc="a number or an expression, plain or in LaTeX",
    parse=parse,
    read=read,
    rewards={"math_answer": 1.0, "format": 1.0},
    strict=("math_answer",),
    prompt=lambda row: "math",
    write=lambda s: str(s.answer[0] if isinstance(s.answer, list) else s.answer),
    columns=("final_answer",),
    boxed=True,
)
