"""Answer -> score of Visual-RFT's graders of a box, with the defects that were measured."""

from __future__ import annotations

import math

import pytest
from vlrft.rewards.boxes import visual_rft, visual_rft_eval

from vlrft.schema import DataError, Sample
from vlrft.testing.small_policies import sample

HALF = sample("half", (0, 0, 500, 1000), answer="box")
INFO = {
    "size": [640, 400],
    "first_shape": [320.0, 100.0, 640.0, 300.0],
}  # the middle of the right half
SHAPE = Sample(id="shape", messages=(), answer=(0, 0, 500, 1000), tags={"answer": "box"}, info=INFO)


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("<answer>(0,0),(500,1000)</answer>", 2.0),
        ("<answer> (0, 0) , (500, 1000) </answer>", 2.0),
        ("<answer>\nhere: (0,0),(500,1000)\n</answer>", 2.0),
        ("(0,0),(500,1000)", 2.0),  # no tag
        ("<answer>(0,0),(1000,1000)</answer>", 1.5),  # IoU 0.5, nothing of the hull left
        ("<answer>(0,0),(250,1000)</answer>", 1.5),
        ("<answer>(500,0),(1000,1000)</answer>", 1.0),  # next to it
        ("<answer>(750,0),(1000,1000)</answer>", 0.75),  # a quarter of the hull is gap
        ("<answer>(0,0),(5000,1000)</answer>", 1.1),  # out of range
        ("<answer>(500,1000),(0,0)</answer>", 2.0),  # inverted: union 1, hull 0.5
        ("<answer>(1000,1000),(0,0)</answer>", 3.0),  # inverted: union 1.5, hull 0.5
        ("<answer>(1000000,0),(0,1000)</answer>", -1999.0),  # inverted: union -999.5, hull 0.5
        ("<answer>(9,9),(0,0),(500,1000)</answer>", 1.000162),  # (9,9),(0,0): union 0.500081
        ("<answer>(0,0),(500,1000),(0,0),(500,1000)</answer>", 1.0),  # two top left corners
        ("<answer>(0,0),(9,9)</answer><answer>(0,0),(500,1000)</answer>", 0.000162 + 1.0),
        ("<answer>(0.0,0.0),(500,1000)</answer>", 0.0),
        ("<answer>[0,0,500,1000]</answer>", 0.0),
        ("<answer></answer>", 0.0),
        ("", 0.0),
    ],
)
def test_the_training_reward_is_giou_plus_1(text: str, reward: float) -> None:
    assert visual_rft(text, HALF) == pytest.approx(reward, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("<answer>(500,250),(1000,750)</answer>", 1.0),
        ("(500,250),(1000,750)", 1.0),
        ("<think>(0,0),(9,9)</think><answer>(500,250),(1000,750)</answer>", 0.0),
        ("<think>(500,250),(1000,750)</think><answer>(0,0),(9,9)</answer>", 1.0),
        ("<answer>(500,250),(750,750)</answer>", 0.5),
        ("<answer>(0,0),(500,1000)</answer>", 0.0),  # the gold answer is not asked
        ("<answer>(500,250),(1500,750)</answer>", 0.5),  # out of range
        ("<answer>(1000,750),(500,250)</answer>", 0.0),
        ("<answer>(500.0,250),(1000,750)</answer>", 0.0),
        ("", 0.0),
    ],
)
def test_the_evaluation_is_the_iou_with_the_first_shape(text: str, grade: float) -> None:
    assert visual_rft_eval(text, SHAPE) == pytest.approx(grade, abs=1e-5)


def test_without_a_shape_the_gold_answer_is_used() -> None:
    assert visual_rft_eval("(0,0),(500,1000)", HALF) == pytest.approx(0.5 / 0.500001)


HOSTILE = [
    "(0,0),(500,1000)" * 10_000,
    "<answer>" + "(0,0),(500,1000);" * 10_000 + "</answer>",
    "<answer>" * 20_000 + "(0,0),(500,1000)" + "</answer>" * 20_000,
    "(" * 100_000,
    "( " * 50_000,
    "(1," * 33_000,
    "(1,1),(" * 15_000,
    "(" + " " * 100_000 + "1",
    "(" + "1" * 100_000,
    "(" + "9" * 100_000 + ",0),(1,1)",
    "(0,0),(" + "9" * 4000 + ",1)",
    "(0,0),(" + "9" * 300 + "," + "9" * 300 + ")",  # an area beyond the range of a float
    "(" + "9" * 300 + "," + "9" * 300 + "),(0,0)",
    "(" + "9" * 300 + ",0),(0," + "9" * 300 + ")",
    "(٠,٠),(٥٠٠,١٠٠٠)",
    "\x00" * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_answers_have_a_finite_score(text: str) -> None:
    scores = [visual_rft(text, HALF), visual_rft_eval(text, HALF), visual_rft_eval(text, SHAPE)]
    assert all(isinstance(v, float) and math.isfinite(v) for v in scores)
    assert all(-1e-9 <= v <= 1.0 for v in scores[1:] if v is not None)


@pytest.mark.parametrize(
    "gold",
    [None, "(0,0),(1,1)", "0011", (0, 0, 1), (0, 0, 1, math.nan), (0, 0, 1, math.inf), (0, 0, True, 1)],
)  # fmt: skip
def test_an_unreadable_gold_answer_raises(gold: object) -> None:
    for grader in (visual_rft, visual_rft_eval):
        with pytest.raises(DataError, match="sample gold: gold answer"):
            grader("<answer>(0,0),(1,1)</answer>", sample("gold", gold))


def test_other_kinds_of_gold_answers_do_not_apply() -> None:
    assert visual_rft("", sample("n", 3, answer="count")) is None
    assert visual_rft_eval("", sample("n", 3, answer="count")) is None
