"""Mathematical answers: a number, an expression, a tuple, a set, each with its unit if any."""

from __future__ import annotations

from vlrft.data import strip_answer_tag

from ..entry import Entry
from ..kind import AnswerKind, Facts, Gold


def read(entry: Entry, facts: Facts) -> Gold:
    cell = strip_answer_tag(entry.answer)
    if isinstance(cell, str | int | float) and not isinstance(cell, bool):
        return Gold(answer=str(cell).strip(), tags={"answer": "math"})
    raise ValueError(f"the gold answer {cell!r} is neither text nor a number")


KIND = AnswerKind(
    name="math",
    doc="a number or an expression, plain or in LaTeX",
    rewards={"math_answer": 1.0, "format": 1.0},
    strict=("math_answer",),
    read=read,
    prompt="math",
)
