"""Answer -> score of `classname` and of Visual-RFT's graders."""

from __future__ import annotations

import pytest
from vlrft.rewards._visual_rft import find_tagged
from vlrft.rewards.classname import classname, visual_rft, visual_rft_eval

from vlrft.schema import DataError
from vlrft.testing.small_policies import sample

RL = sample("car", "2012 Acura RL Sedan", answer="choice")


@pytest.mark.parametrize(
    ("answer", "strict", "training", "test"),
    [
        ("2012 Acura RL Sedan", 1, 1, 1),
        ("2012_acura-rl  sedan", 1, 0, 0),
        ("2012", 0, 1, 1),
        ("", 0, 1, 1),
        ("2012 Acura RL Sedan or 2012 Acura TL Sedan", 0, 1, 1),
        ("2012 Acura TL Sedan", 0, 0, 0),
        ("Audi", 0, 0, 0),
        ("-_ ", 0, 0, 0),
        ("a\n2012", 0, 1, 0),
    ],
)
def test_strict_and_released_scores(
    answer: str, strict: float, training: float, test: float
) -> None:
    completion = f"<answer>{answer}</answer>"
    assert classname(completion, RL) == strict
    assert visual_rft_eval(completion, RL) == test
    if "\n" not in answer:
        pytest.importorskip("math_verify")
        assert visual_rft(completion, RL) == training


@pytest.mark.parametrize(
    ("gold", "answer", "score"),
    [
        ("A-", "A-", 1),
        ("A-", "A -", 1),
        ("A-", "A", 0),
        ("A", "A-", 0),
        ("B-", "A-", 0),
        ("-1", "1", 0),
        ("1", "-1", 0),
        ("-1", "- 1", 1),
        ("A340-300", "a340 300", 1),
        ("A340 300", "A340 - 300", 1),
        ("black-eyed susan", "Black_Eyed_Susan", 1),
        ("St. Bernard", "st.bernard", 1),
    ],
)
def test_a_hyphen_that_joins_no_letters_or_digits_is_a_sign(
    gold: str, answer: str, score: float
) -> None:
    assert classname(f"<answer>{answer}</answer>", sample("s", gold, answer="choice")) == score


def test_without_a_tag() -> None:
    assert classname("2012 Acura RL Sedan", RL) == visual_rft_eval("2012 Acura RL Sedan", RL) == 0
    assert visual_rft("all cars: 2012 Acura RL Sedan, Audi", RL) == 1


@pytest.mark.parametrize(
    ("text", "one", "many"),
    [
        ("<answer>a</answer><answer>b</answer>", "a", "a"),
        ("<answer>a\nb</answer><answer>c</answer>", "c", "a\nb"),
        ("<answer>\n<answer>c</answer>", "c", "\n<answer>c"),
        ("<answer><answer>c</answer>", "<answer>c", "<answer>c"),
        ("</answer><answer>", None, None),
        ("<answer>" * 100_000, None, None),
        ("<answer>\n" * 100_000 + "</answer>", None, "\n" + "<answer>\n" * 99_999),
    ],
)
def test_the_first_tag_is_found_as_by_the_released_pattern(
    text: str, one: str | None, many: str | None
) -> None:
    assert find_tagged(text, lines=False) == one
    assert find_tagged(text, lines=True) == many


@pytest.mark.parametrize("gold", [None, "", " - ", 3])
def test_an_unreadable_gold_answer_raises(gold: object) -> None:
    for reward in (classname, visual_rft, visual_rft_eval):
        with pytest.raises(DataError, match="sample gold: gold answer"):
            reward("<answer>x</answer>", sample("gold", gold))
    assert classname("<answer>3</answer>", sample("n", 3, answer="count")) is None
