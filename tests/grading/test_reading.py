"""Reading answers, on awkward and hostile completions."""

from __future__ import annotations

import pytest

from vlrft.grading import (
    MAX_ANSWER,
    expects,
    normalise_text,
    read_answer,
    read_integer,
    read_letter,
)
from vlrft.testing.small_policies import sample


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("<answer>7</answer>", "7"),
        ("<answer> 7\n</answer>", "7"),
        ("It is <answer>7</answer>.", "7"),
        ("<think>4, no, <answer>4</answer></think><answer>7</answer>", "7"),
        ("<think>a</think><think>b</think><answer>7</answer>", "7"),
        ("7", None),
        ("", None),
        ("<answer></answer>", None),
        ("<answer> </answer>", None),
        ("<answer>7", None),
        ("7</answer>", None),
        ("</answer>7<answer>", None),
        ("</answer><answer>7</answer>", None),
        ("<answer>7</answer><answer>8</answer>", None),
        ("<answer><answer>7</answer></answer>", None),
        ("<think><answer>7</answer></think>", None),
        ("<answer>7</answer></think>", None),
        ("<Answer>7</Answer>", None),
        ("<answer>" + "7" * (MAX_ANSWER + 1) + "</answer>", None),
        ("<answer>" * 50_000, None),
        ("<answer>7</answer>" * 50_000, None),
    ],
)
def test_an_answer_is_exactly_one_tag_after_the_thinking(
    completion: str, answer: str | None
) -> None:
    assert read_answer(completion) == answer


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("b", "B"),
        ("(B)", "B"),
        ("B)", "B"),
        (" B. ", "B"),
        ("AB", None),
        ("A or B", None),
        ("a bookcase", None),
        ("", None),
        ("7", None),
        ("Ｂ", None),
        ("(" * 100_000, None),
    ],
)
def test_letters(text: str, letter: str | None) -> None:
    assert read_letter(text) == letter


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        (" 12\n", 12),
        ("-4", -4),
        ("03", 3),
        ("3.0", None),
        ("3 or 4", None),
        ("three", None),
        ("٣", None),
        ("３", None),
        ("³", None),
        ("1_0", None),
        ("1e3", None),
        ("", None),
        ("9" * 100_000, None),
    ],
)
def test_whole_numbers_in_ascii_digits(text: str, number: int | None) -> None:
    assert read_integer(text) == number


def test_normalised_text_ignores_only_case_and_white_space() -> None:
    assert normalise_text("  Persian\n CAT ") == "persian cat"
    assert normalise_text("７") != "7"


def test_the_answer_tag_decides_what_a_reward_applies_to() -> None:
    assert expects(sample("a", 1), "count") is True
    assert expects(sample("b", 1, answer="count"), "count") is True
    assert expects(sample("c", 1, answer="count"), "choice") is False
