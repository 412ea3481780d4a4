"""Prompts of packs, filled with the texts of rows."""

from __future__ import annotations

from vlrft.data import fill_prompt, split_at_images
from vlrft.schema import IMAGE


def test_a_value_is_not_searched_for_further_places() -> None:
    text = "{question}\n{options} {other} {"
    filled = fill_prompt(text, options="(A) {question} {0}", question="{options}?")
    assert filled == "{options}?\n(A) {question} {0} {other} {"


def test_a_text_is_split_at_the_marks_of_images() -> None:
    assert split_at_images("<image>a<image>") == (IMAGE, "a", IMAGE)
    assert split_at_images("a") == ("a",)
