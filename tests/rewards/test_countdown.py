"""Countdown: each number once, the target exactly, nothing but arithmetic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlrft.plugins.find import find_reward
from vlrft.schema import DataError, Sample

countdown = find_reward("countdown")
NUMBERS = [63, 95, 96]


def make_sample(gold: Any = None, /, **tags: str) -> Sample:
    gold = {"nums": NUMBERS, "target": 64} if gold is None else gold
    return Sample(id="one", messages=(), answer=gold, tags=tags)


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("96 - 95 + 63", 1.0),
        ("(63 + 96) - 95", 1.0),
        ("63+96-95 = 64", 1.0),
        ("63+96-95 = 65", 0.0),
        ("63+96-95 = 64 = 64", 0.0),
        ("96 - 95 + 63 + 0", 0.0),  # a number that is not among them
        ("63 + 1", 0.0),
        ("64", 0.0),
        ("96 - 95 + 63 - 63 + 63", 0.0),  # one of them three times
        ("63 + 96 / 95", 0.0),
        ("96 // 95 + 63", 0.0),  # 64 in Python
        ("96 ** 0 + 63", 0.0),
        ("-95 + 96 + 63", 0.0),  # a sign is no operation
        ("63 + (96 - 95", 0.0),
        ("6_3 + 96 - 95", 0.0),
        ("63and 96 - 95", 0.0),
        ("63 + 96 - 95.0", 0.0),
        ("__import__('os').getcwd()", 0.0),
        ("(" * 150 + "1" + ")" * 49, 0.0),
        ("63 / (95 - 95) + 96", 0.0),
        ("", 0.0),
        ("63 + 96 - 95" + " " * 300, 1.0),
        ("63 + 96 - 95" + " + 0" * 100, 0.0),
    ],
)
def test_the_score_of_an_expression(answer: str, score: float) -> None:
    assert (
        countdown(f"<think>63 + 96 - 95</think><answer>{answer}</answer>", make_sample()) == score
    )


def test_a_box_counts_where_there_is_no_tag() -> None:
    assert countdown("so \\boxed{(63 + 96) - 95}", make_sample()) == 1.0
    assert countdown("63 + 96 - 95", make_sample()) == 0.0
    assert countdown("<answer>64</answer> \\boxed{63 + 96 - 95}", make_sample()) == 0.0


def test_fractions_are_exact() -> None:
    gold = {"nums": [3, 3, 8, 8], "target": 24}
    assert countdown("<answer>8 / (3 - 8 / 3)</answer>", make_sample(gold)) == 1.0


def test_the_reward_applies_where_the_gold_answer_is_a_countdown() -> None:
    assert countdown("<answer>64</answer>", make_sample("64", answer="math")) is None
    assert countdown("<answer>63+96-95</answer>", make_sample(answer="countdown")) == 1.0


@pytest.mark.parametrize(
    "gold",
    ["64", {"nums": [], "target": 1}, {"nums": [1.5], "target": 1}, {"nums": [1]}, {"target": 1}],
)
def test_a_broken_gold_answer_raises(gold: Any) -> None:
    with pytest.raises(DataError, match="sample one: gold answer"):
        countdown("<answer>1</answer>", make_sample(gold, answer="countdown"))


@given(st.text(alphabet="0123456789+-*/()= \n6359", max_size=60))
def test_any_text_is_graded(text: str) -> None:
    assert countdown(f"<answer>{text}</answer>", make_sample()) in (0.0, 1.0)
