"""Completion -> number of `reasoning_format`."""

from __future__ import annotations

import pytest
from vlrft.rewards.reasoning_format import reasoning_format

from vlrft.testing.small_policies import sample


@pytest.mark.parametrize(
    ("completion", "number"),
    [
        ("<COT>a</COT>", 1),
        ("\n<CODE>print(1)", 2),
        ("<ANSWER>7</ANSWER>", 3),
        ("<LONG_COT>", 4),
        ("<cot>", 0),
        ("so <COT>", 0),
        ("", 0),
    ],
)
def test_a_completion_is_known_by_the_tag_that_it_begins_with(
    completion: str, number: float
) -> None:
    assert reasoning_format(completion, sample("x")) == number
