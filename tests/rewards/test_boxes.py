"""Answer -> score of `boxes`."""

from __future__ import annotations

import math

import pytest
from vlrft.rewards.boxes import boxes

from tests.fakes import sample
from vlrft.schema import DataError

LEFT_HALF = sample("half", (0, 0, 500, 1000), answer="box")


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("(0,0),(500,1000)", 1.0),
        (" (0, 0), (500, 1000) ", 1.0),
        ("(0,0),(1000,1000)", 0.5),
        ("(0,0),(250.0,1000)", 0.5),
        ("(500,0),(1000,1000)", 0.0),
        ("(500,1000),(0,0)", 0.0),
        ("(0,0),(0,1000)", 0.0),
        ("(0,0),(500,1001)", 0.0),
        ("(-1,0),(500,1000)", 0.0),
        ("(0,0),(inf,nan)", 0.0),
        ("[0,0,500,1000]", 0.0),
        ("(0,0),(500,1000),(0,0),(500,1000)", 0.0),
        ("(0,0),(500,1000)" * 10_000, 0.0),
        ("(0,0),(" + "9" * 100_000 + ",1000)", 0.0),
        ("(٠,٠),(٥٠٠,١٠٠٠)", 0.0),
        ("left half", 0.0),
    ],
)
def test_overlap_of_a_single_box(answer: str, score: float) -> None:
    assert boxes(f"<answer>{answer}</answer>", LEFT_HALF) == pytest.approx(score)


@pytest.mark.parametrize(
    "completion", ["(0,0),(500,1000)", "<answer>(0,0),(500,1000)", "", "(" * 100_000]
)
def test_no_answer_tag_no_point(completion: str) -> None:
    assert boxes(completion, LEFT_HALF) == 0.0


def test_a_gold_answer_may_come_from_json() -> None:
    assert boxes("<answer>(1,2),(3,4)</answer>", sample("list", [1, 2, 3, 4])) == 1.0


def test_other_kinds_of_gold_answers_are_none_of_its_business() -> None:
    assert boxes("<answer>3</answer>", sample("n", 3, answer="count")) is None


@pytest.mark.parametrize(
    "gold",
    [
        None,
        "(0,0),(1,1)",
        (0, 0, 1),
        (0, 0, 0, 1),
        (5, 0, 1, 1),
        (0, 0, 1, 1001),
        (0, 0, 1, math.nan),
        (0, 0, True, 1),
        ("0", "0", "1", "1"),
    ],
)
def test_an_unreadable_gold_answer_raises(gold: object) -> None:
    with pytest.raises(DataError, match="sample gold: gold answer"):
        boxes("<answer>(0,0),(1,1)</answer>", sample("gold", gold))
