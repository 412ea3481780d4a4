"""Answer -> score of `boxes`, `boxes.giou` and `boxes.matched`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import pytest
from vlrft.rewards.boxes import boxes, giou, matched

from vlrft.schema import DataError, Sample
from vlrft.testing.small_policies import sample

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
        ("[0,0,500,1000]", 1.0),
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
def test_a_completion_without_an_answer_tag_earns_nothing(completion: str) -> None:
    assert boxes(completion, LEFT_HALF) == 0.0


def test_a_gold_answer_may_come_from_json() -> None:
    assert boxes("<answer>(1,2),(3,4)</answer>", sample("list", [1, 2, 3, 4])) == 1.0


def test_other_kinds_of_gold_answers_do_not_apply() -> None:
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


def test_in_a_frame_the_answer_is_in_its_pixels() -> None:
    """Thousandths 156 … 470 of 644 pixels are 100.5 … 302.7: the gold box is rounded to whole pixels."""
    framed = Sample(
        id="framed", messages=(), answer=(156, 117, 470, 588), info={"frame": (644, 420)}
    )
    assert boxes("<answer>(100,49),(303,247)</answer>", framed) == 1.0
    assert boxes("<answer>(100,49),(201.5,247)</answer>", framed) == 0.5
    assert boxes("<answer>(100,49),(645,247)</answer>", framed) == 0.0
    assert giou("<answer>(100,49),(303,247)</answer>", framed) == 1.0
    assert giou("<answer>(100,49),(645,247)</answer>", framed) == 0.0
    thin = Sample(id="thin", messages=(), answer=(1, 0, 2, 1000), info={"frame": (28, 28)})
    with pytest.raises(DataError, match="sample thin: gold answer"):
        boxes("", thin)


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("(0,0),(500,1000)", 1.0),
        ("(0,0),(1000,1000)", 0.75),  # IoU 0.5
        ("(500,0),(1000,1000)", 0.5),  # adjacent, no gap
        ("(750,0),(1000,1000)", 0.375),  # a quarter of the hull is gap
        ("(900,0),(1000,1000)", 0.3),  # two fifths
        ("(500,1000),(0,0)", 0.0),  # inverted
        ("(0,0),(0,1000)", 0.0),
        ("(0,0),(500,1001)", 0.0),
        ("(0,0),(500,1000),(0,0),(500,1000)", 0.0),
        ("left half", 0.0),
    ],
)
def test_generalised_overlap(answer: str, score: float) -> None:
    assert giou(f"<answer>{answer}</answer>", LEFT_HALF) == pytest.approx(score)


HALVES = sample("halves", [(0, 0, 500, 1000), [500, 0, 1000, 1000]], answer="boxes")
NEAR = sample("near", [(0, 0, 100, 1000), (20, 0, 110, 1000)], answer="boxes")


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("(0,0),(500,1000);(500,0),(1000,1000)", 1.0),
        ("(500,0),(1000,1000)\n(0,0),(500,1000)", 1.0),
        ("(500,0),(1000,1000);\n (0,0),(500,1000);", 1.0),
        ("(0,0),(500,1000)", 0.5),  # one too few
        ("(0,0),(500,1000);(0,0),(500,1000)", 0.5),  # a gold box is matched once
        ("(0,0),(500,1000);(500,0),(1000,1000);(0,0),(500,1000)", 2 / 3),
        ("(0,0),(1000,1000)", 0.25),
        ("(0,0),(500,1000);(1000,1000),(500,0)", 0.5),  # the other is inverted
        ("(0,0),(500,1000);(500,0),(1001,1000)", 0.5),
        ("(0,0),(500,1000);right half", 0.0),
        ("(0,0),(500,1000),(500,0),(1000,1000)", 0.0),  # no separator
        (";\n;", 0.0),
        ("none", 0.0),
    ],
)
def test_matching_boxes(answer: str, score: float) -> None:
    assert matched(f"<answer>{answer}</answer>", HALVES) == pytest.approx(score)


def test_the_best_matching_is_not_the_greedy_one() -> None:
    """The best pair overlaps 90/105; taking it leaves 60/110. The best two pairs: 85/100 and 80/100."""
    answer = "<answer>(10,0),(105,1000);(0,0),(80,1000)</answer>"
    assert matched(answer, NEAR) == pytest.approx((0.85 + 0.8) / 2)


@pytest.mark.parametrize(
    "gold", [None, (), [], "(0,0),(1,1)", [(0, 0, 1)], [(0, 0, 1, 1), (5, 0, 1, 1)], (0, 0, 1, 1)]
)
def test_a_list_of_boxes_that_cannot_be_read_raises(gold: object) -> None:
    with pytest.raises(DataError, match="sample gold: gold answer"):
        matched("<answer>(0,0),(1,1)</answer>", sample("gold", gold, answer="boxes"))


def test_without_scipy_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ImportError, match="pip install scipy"):
        matched("<answer>(0,0),(500,1000)</answer>", HALVES)


def test_each_reward_applies_to_its_kind_of_gold_answer() -> None:
    assert giou("<answer>3</answer>", HALVES) is None
    assert boxes("<answer>3</answer>", HALVES) is None
    assert matched("<answer>3</answer>", LEFT_HALF) is None


BOX = "(0,0),(500,1000)"
HOSTILE = [
    "<answer>" + f"{BOX};" * 10_000 + "</answer>",
    "<answer>" + "(0,0),(1,1);" * 166 + "</answer>",  # as many as an answer holds
    "<answer>" + "\n;" * 50_000 + "</answer>",
    "<answer>" * 20_000 + BOX + "</answer>" * 20_000,
    f"<answer><answer>{BOX}</answer></answer>",
    "<answer>" + "(" * 100_000 + "</answer>",
    "<answer>(0,0),(" + "9" * 1000 + ",1)</answer>",
    "<answer>(0,0),(" + "9" * 100_000 + ",1)</answer>",
    "<answer>(0,0),(1e999,nan)</answer>",
    "<answer>" + " " * 1900 + "(</answer>",
    "</think>" * 100_000,
    "\x00" * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize(
    ("reward", "asked"), [(boxes, LEFT_HALF), (giou, LEFT_HALF), (matched, HALVES)]
)
def test_hostile_answers_earn_almost_nothing(
    reward: Callable[[str, Sample], float | None], asked: Sample, text: str
) -> None:
    score = reward(text, asked)
    assert score is not None
    assert 0.0 <= score < 0.01
