"""A helper of the tests of the strict grader of mathematics."""

from __future__ import annotations

from vlrft.grading import read_math, same_math


def same(gold: str, answer: str) -> bool:
    """Whether the answer equals the gold answer, which must be readable."""
    right, parsed = read_math(gold), read_math(answer)
    assert right is not None
    assert right.forms
    return parsed is not None and same_math(right, parsed)
