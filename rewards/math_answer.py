"""A mathematical answer: a number, an expression, a tuple, an interval, a set, a matrix, a word."""

from __future__ import annotations

from vlrft.grading import (
    expects,
    gold_answers,
    read_answer,
    read_boxed,
    read_math,
    same_math,
    why_no_answer,
)
from vlrft.schema import Sample, Unreadable, explain_unreadable

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


def _why(completion: str, sample: Sample) -> Unreadable | None:
    text = answer_text(completion)
    if text is not None:
        return (
            None if read_math(text) is not None else Unreadable(why="no mathematics in the answer")
        )
    reason = why_no_answer(completion)
    if reason is not None and "<answer>" not in completion and completion.strip():
        return Unreadable(why="neither an <answer> tag nor a \\boxed{} answer")
    return reason


@explain_unreadable(_why)
def math_answer(completion: str, sample: Sample) -> float | None:
    """1.0 for an answer equal to a gold answer, 0.0 for another or none; None when the gold answer is not mathematics.

    The answer is the whole text of the one `<answer>` tag after the thinking, or, where there is no such tag at all,
    of the last `\\boxed{…}`. Numbers are compared exactly, other expressions by value; a unit may be left out, but
    not differ; tuples are ordered, sets and lists of solutions are not (`vlrft.grading.math.mathematics` has the
    rules). The gold answer is a text, a number, or a list of texts of which each is right. 0.0 for an answer that
    cannot be read, or not within the limits on time and memory. Raises DataError for a gold answer that cannot be
    read.
    """
    if not expects(sample, "math"):
        return None
    expected = gold_answers(sample)
    text = answer_text(completion)
    answer = None if text is None else read_math(text)
    return float(answer is not None and any(same_math(gold, answer) for gold in expected))


def answer_text(completion: str) -> str | None:
    """The answer of the completion: the text of its tag, else of its last box; None when it has neither."""
    response = completion.rpartition("</think>")[2]
    if "<answer>" in response or "</answer>" in response:
        return read_answer(completion)
    return read_boxed(completion)
