"""Answer -> score of `point`."""

from __future__ import annotations

import pytest
from vlrft.rewards.point import point

from vlrft.schema import DataError
from vlrft.testing.small_policies import sample

BOX = sample("button", (100, 200, 300, 250.5), answer="point")


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("(200,225)", 1.0),
        (" ( 200 , 225 ) ", 1.0),
        ("(200.5,225.25)", 1.0),
        ("(100,200)", 1.0),
        ("(300,250.5)", 1.0),
        ("(0100,200)", 1.0),
        ("(99.999,225)", 0.0),
        ("(300.001,225)", 0.0),
        ("(200,199.9)", 0.0),
        ("(200,250.6)", 0.0),
        ("(225,200.1)", 1.0),
        ("(200,100)", 0.0),  # swapped
        ("(-200,225)", 0.0),
        ("(2e2,225)", 0.0),
        ("(10**10**10,225)", 0.0),
        ("(nan,225)", 0.0),
        ("(inf,inf)", 0.0),
        ("(200,225),(200,225)", 0.0),
        ("(200,225) or (1,1)", 0.0),
        ("(100,200),(300,250)", 0.0),
        ("click (200,225)", 0.0),
        ("200,225", 0.0),
        ("[200,225]", 1.0),
        ("(200 225)", 0.0),
        ("(200,225", 0.0),
        ("(((200,225)))", 0.0),
        ("(２００,２２５)", 0.0),
        ("(٢٠٠,225)", 0.0),
        ("(200，225)", 0.0),
        ("(200.,225)", 0.0),
        ("(200." + "0" * 1500 + ",225)", 0.0),
        ("(" + " " * 100_000 + "200,225)", 0.0),
        ("(" * 100_000, 0.0),
        ("", 0.0),
    ],
)
def test_a_point_is_right_inside_the_box(answer: str, score: float) -> None:
    assert point(f"<answer>{answer}</answer>", BOX) == score


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "(200,225)",
        "<answer>(200,225)",
        "(200,225)</answer>",
        "<think><answer>(200,225)</answer></think>",
        "<answer>(200,225)</answer><answer>(200,225)</answer>",
        "<answer>" * 20_000,
        "(200,225)" * 20_000,
        "\ud800\x00\u202e" * 30_000,
    ],
)
def test_a_completion_without_an_answer_earns_nothing(completion: str) -> None:
    assert point(completion, BOX) == 0.0


def test_the_thinking_does_not_count() -> None:
    assert point("<think>(1,1)</think> <answer>(200,225)</answer>", BOX) == 1.0


def test_coordinates_end_at_1000() -> None:
    whole = sample("whole", [0, 0, 1000, 1000])
    assert point("<answer>(1000,0)</answer>", whole) == 1.0
    assert point("<answer>(1000.1,0)</answer>", whole) == 0.0


def test_other_kinds_of_gold_answers_do_not_apply() -> None:
    assert point("<answer>(1,1)</answer>", sample("box", (0, 0, 9, 9), answer="box")) is None


@pytest.mark.parametrize(
    "gold",
    [
        None,
        "",
        "0,0,9,9",
        "0099",
        (0, 0, 9),
        (0, 0, 9, 9, 9),
        (0, 0, 9, 9, "px"),
        (9, 0, 0, 9),
        (0, 0, 0, 9),
        (0, 0, 9, 1001),
        (-1, 0, 9, 9),
        (-(10**400), 0, 9, 9),
        (0, 0, 9, float("nan")),
        (0, 0, 9, float("inf")),
        (0, 0, 9, 10**400),
        (False, 0, 9, True),
        (0, 0, 9, "9"),
    ],
)
def test_an_unreadable_gold_answer_raises(gold: object) -> None:
    with pytest.raises(DataError, match=r"sample gold: gold answer .* within 0 to 1000"):
        point("<answer>(1,1)</answer>", sample("gold", gold))
