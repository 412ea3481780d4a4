"""A mathematical answer: a number, an expression, a tuple, an interval, a set, a matrix, a word."""

from __future__ import annotations

from vlrft.grading import (
    expects,
    gold_answers,
    read_answer,
    read_boxed,
    read_math,
    same_math,
    strip_box,
)
from vlrft.schema import Sample

from ._released_math import dr_grpo, lighteval, mathruler, open_r1, r1v, r1v_eval

__all__ = [  # noqa: RUF022 (the strict one first)
    "math_answer",
    "dr_grpo",
    "lighteval",
    "mathruler",
    "open_r1",
    "r1v",
    "r1v_eval",
]


def math_answer(completion: str, sample: Sample) -> float | None:
    """1.0 for an answer equal to a gold one, 0.0 for another or none; None when the gold answer is
    not mathematics.

    The answer stands in the one `<answer>` tag behind the thinking, or, where there is no such tag
    at all, in the last `\\boxed{…}`. All of it must be the answer. Numbers are equal exactly, other
    expressions in value; a unit may be left out, but not be another; tuples are ordered, sets and
    lists of solutions are not (`vlrft.grading.math.mathematics` has the rules). The gold answer is a
    text, a number, or a list of texts of which any will do. 0.0 for an answer that cannot be read
    within bounds of time and memory. Raises DataError for a gold answer that cannot be read.
    """
    if not expects(sample, "math"):
        return None
    golds = gold_answers(sample)
    said = answer_text(completion)
    answer = None if said is None else read_math(strip_box(said))
    return float(answer is not None and any(same_math(gold, answer) for gold in golds))


def answer_text(completion: str) -> str | None:
    """What the completion answers: the text in its tag, else in its last box; None for none."""
    spoken = completion.rpartition("</think>")[2]
    if "<answer>" in spoken or "</answer>" in spoken:
        return read_answer(completion)
    return read_boxed(completion)
