"""Reading the last box of a completion."""

from __future__ import annotations

import pytest

from vlrft.grading import MAX_ANSWER, read_boxed, strip_box


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So it is \boxed{7}.", "7"),
        (r"\boxed{ 7 }", "7"),
        (r"\boxed {7}", "7"),
        (r"\fbox{7}", "7"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{(0, \infty)}", r"(0, \infty)"),
        (r"\boxed{6} or rather \boxed{7}", "7"),
        (r"\boxed{6} or rather \fbox{7}", "7"),
        (r"\boxed{\boxed{7}}", "7"),
        (r"<think>\boxed{6}</think> \boxed{7}", "7"),
        (r"<think>\boxed{6}</think> 7", None),
        (r"\boxed{7}</think>", None),
        (r"\boxed{6} and \boxed{7", None),
        (r"\boxed 7", None),
        (r"\boxed", None),
        (r"\boxed{}", None),
        (r"\boxed{ }", None),
        (r"\boxed{\}", None),
        (r"\boxed{{7}", None),
        (r"boxed{7}", None),
        ("7", None),
        ("", None),
        (r"\boxed{" + "7" * (MAX_ANSWER + 1) + "}", None),
        (r"\boxed{" * 20_000, None),
        (r"\boxed{" * 20_000 + "7" + "}" * 20_000, "7"),
    ],
)
def test_the_last_box_after_the_thinking_is_the_answer(text: str, answer: str | None) -> None:
    assert read_boxed(text) == answer


@pytest.mark.parametrize(
    ("answer", "bare"),
    [
        (r"\boxed{7}", "7"),
        (r"$\boxed{\frac12}$", r"\frac12"),
        (r"\boxed{6}\boxed{7}", r"\boxed{6}\boxed{7}"),
        (r"x = \boxed{7}", r"x = \boxed{7}"),
        (r"\boxed{7", r"\boxed{7"),
        ("7", "7"),
    ],
)
def test_a_box_around_the_whole_answer_is_removed(answer: str, bare: str) -> None:
    assert strip_box(answer) == bare
