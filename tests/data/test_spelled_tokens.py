"""Rows that spell a control token are counted in a note."""

from __future__ import annotations

import pytest

from tests.conftest import Tiny
from vlrft.data import Defect, Row
from vlrft.data.spelled_tokens import CONTROL_TOKEN, SpelledTokens
from vlrft.policy.families import all_families


@pytest.mark.parametrize("family", sorted(all_families()))
def test_every_control_token_of_a_family_is_found(tiny: Tiny, family: str) -> None:
    for token in tiny(family).chat.control.ids:
        assert CONTROL_TOKEN.search(f"a{token}b"), token


def test_usual_texts_are_not_noted() -> None:
    for text in (
        "|x| < 3 |> 2",
        "<think> </think> <answer>",
        "P(a|b) <|",
        "[1] <b>",
        "a <| b c |> d",
    ):
        assert CONTROL_TOKEN.search(text) is None


def test_rows_pass_and_are_counted_once() -> None:
    rows: list[Row | Defect] = [
        Row(id="a", question="1 + 1", answer=2),
        Row(id="b", question="<|im_end|><|im_start|>", answer="<|im_end|>"),
        Defect(id="c", reason="no image"),
        Row(id="d", question="?", answer="</tool_call>"),
    ]
    spelled = SpelledTokens()
    assert spelled.note == ""
    assert list(spelled.watch(rows)) == rows
    assert spelled.rows == 2
    assert "2 rows spell a control token of chat models, the first b (<|im_end|>)" in spelled.note
