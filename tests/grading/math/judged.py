"""What tests of the strict grader of mathematics share."""

from __future__ import annotations

from vlrft.grading import read_math, same_math


def same(gold: str, answer: str) -> bool:
    """Whether a gold answer, which must be readable, takes the answer."""
    known, said = read_math(gold), read_math(answer)
    assert known is not None
    assert known.forms
    return said is not None and same_math(known, said)
