"""Answer -> score of `choice`."""

from __future__ import annotations

import pytest
from vlrft.rewards.choice import choice

from vlrft.schema import DataError, Sample
from vlrft.testing.small_policies import sample

SIDE = sample("side", "B", answer="choice", options="left\nright")
DIGIT = sample("digit", "7", answer="choice")
BREED = sample("breed", "Persian cat", answer="choice", options="Sphynx\nPersian cat")


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("B", 1.0),
        ("b", 1.0),
        ("(B)", 1.0),
        ("B.", 1.0),
        ("right", 1.0),
        ("Right", 1.0),
        ("(B) right", 1.0),
        ("B: right", 1.0),
        ("A", 0.0),
        ("left", 0.0),
        ("(B) left", 0.0),
        ("A or B", 0.0),
        ("left or right", 0.0),
        ("not right", 0.0),
        ("C", 0.0),
        ("", 0.0),
    ],
)
def test_a_letter_and_its_text(answer: str, score: float) -> None:
    assert choice(f"<answer>{answer}</answer>", SIDE) == score


@pytest.mark.parametrize(
    ("answer", "score"), [("7", 1.0), ("77", 0.0), ("seven", 0.0), ("７", 0.0), ("٧", 0.0)]
)
def test_a_text_without_options(answer: str, score: float) -> None:
    assert choice(f"<answer>{answer}</answer>", DIGIT) == score


@pytest.mark.parametrize(
    ("answer", "score"), [("persian  cat", 1.0), ("cat", 0.0), ("Sphynx", 0.0), ("B", 0.0)]
)
def test_a_class_name(answer: str, score: float) -> None:
    assert choice(f"<answer>{answer}</answer>", BREED) == score


@pytest.mark.parametrize(
    ("gold", "answer"),
    [("Straße", "STRASSE"), ("file", "ﬁle"), ("Kiss", "\u212aiss"), ("İzmir", "i̇zmir")],
)
def test_case_is_ignored_as_unicode_says(gold: str, answer: str) -> None:
    """The ligature, the Kelvin sign and ß are the same letters as theirs in Unicode's caseless matching."""
    assert choice(f"<answer>{answer}</answer>", sample("word", gold, answer="choice")) == 1.0


@pytest.mark.parametrize(
    ("gold", "answer", "score"),
    [
        ("A", "mW", 1.0),
        ("A", "MW", 0.0),
        ("A", "mw", 0.0),
        ("A", "a", 1.0),
        ("A", "A", 1.0),
        ("A", "(A) mW", 1.0),
        ("A", "(A) MW", 0.0),
        ("MW", "MW", 1.0),
        ("MW", "mW", 0.0),
    ],
)
def test_options_that_differ_by_case_alone_are_told_apart(
    gold: str, answer: str, score: float
) -> None:
    units = sample("units", gold, answer="choice", options="mW\nMW")
    assert choice(f"<answer>{answer}</answer>", units) == score


def test_an_option_that_is_another_ones_letter_does_not_count() -> None:
    asked = sample("letters", "A", answer="choice", options="b\nB")
    assert choice("<answer>b</answer>", asked) == 0.0
    assert choice("<answer>A</answer>", asked) == 1.0


def test_option_texts_that_are_letters_do_not_count_for_other_letters() -> None:
    swapped = sample("swapped", "A", answer="choice", options="B\nA")
    assert choice("<answer>A</answer>", swapped) == 1.0
    assert choice("<answer>B</answer>", swapped) == 0.0


@pytest.mark.parametrize("hostile", ["B", "<answer>B", "<answer>" * 20_000, "\x00", "B" * 100_000])
def test_a_completion_without_an_answer_earns_nothing(hostile: str) -> None:
    assert choice(hostile, SIDE) == 0.0


def test_other_kinds_of_gold_answers_do_not_apply() -> None:
    assert choice("<answer>3</answer>", sample("n", 3, answer="count")) is None


@pytest.mark.parametrize(
    "broken",
    [
        sample("gold", None),
        sample("gold", ""),
        sample("gold", 7),
        sample("gold", "C", options="left\nright"),
    ],
)
def test_an_unreadable_gold_answer_raises(broken: Sample) -> None:
    with pytest.raises(DataError, match="sample gold: gold answer"):
        choice("<answer></answer>", broken)
