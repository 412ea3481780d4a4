"""Answer -> score of Visual-RFT's rewards of boxes with confidences, with the defects that were measured."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from importlib import import_module

import pytest
from vlrft.rewards.boxes import visual_rft, visual_rft_confidence, visual_rft_iou

from vlrft.schema import DataError, Sample
from vlrft.testing.small_policies import sample

pytest.importorskip("math_verify")

_released = import_module("vlrft.rewards._released_detection")
_read, _key = _released._read, _released._key

LEFT, RIGHT = (0, 303, 500, 1000), (500, 17, 1000, 1000)
GOLD = sample("gold", [LEFT, RIGHT], answer="boxes")
NEAR = (0, 400, 500, 1000)  # an IoU of 600/697 with the left one
FAR = (0, 900, 500, 1000)  # 100/697
SHARE = 600 / 697
Said = tuple[Sequence[float], object]


def listed(*boxes: Said) -> str:
    items = (f"{{'Position': {list(box)}, 'Confidence': {sure}}}" for box, sure in boxes)
    return f"[{', '.join(items)}]"


def tag(text: str) -> str:
    return f"<think>so</think>\n<answer>{text}</answer>"


ONE = listed((NEAR, 0.9))
PAIR = listed((NEAR, 0.9), (RIGHT, 0.6))


@pytest.mark.parametrize(
    ("text", "overlap", "confidence"),
    [
        (tag(ONE), SHARE / 2, 0.9),  # the missing box costs no confidence
        (tag(PAIR), (SHARE + 1) / 2, 0.75),
        (tag(listed((FAR, 0.9))), 0.0, 0.1),
        (tag(listed((FAR, 0.0))), 0.0, 1.0),  # wrong, with full confidence reward
        (tag(listed((NEAR, 0.9), (FAR, 0.2), (RIGHT, 1))), (SHARE + 1) / 3, 0.9),
        (tag(listed((NEAR, 0.9), (NEAR, 0.1))), SHARE / 2, 0.9),  # repeated: the first counts
        (tag(listed((NEAR, 9), (FAR, 1), ((*FAR[:3], 999), 1))), SHARE / 3, 1.0),  # 9 of 3
        (tag(listed((FAR, -8), ((*FAR[:3], 999), 1))), 0.0, 1.0),
        (tag(listed((NEAR, -9))), SHARE / 2, 0.0),
        (tag(listed(((500, 1000, 0, 303), 1.0))), 0.0, 0.0),  # inverted
        (tag(listed(((0, 310, 500, 1100), 1.0))), 690 / 797 / 2, 1.0),  # out of range
        (tag(listed((NEAR, "'0.9'"))), 0.0, 0.0),
        (tag(listed((NEAR, "NaN"))), SHARE / 2, 0.0),
        (tag(f"[{ONE}]"), SHARE / 2, 0.9),  # [[ … ]]
        (tag(ONE.replace("'", '"')), SHARE / 2, 0.9),
        (tag(PAIR[:-30]), SHARE / 2, 0.9),  # truncated, and completed
        (ONE, SHARE / 2, 0.9),  # no tag
        (tag(f"\n{ONE}\n"), 0.0, 0.0),  # over several lines
        (tag("No Objects"), 0.0, 0.0),
        (tag("[]"), 0.0, 0.0),
        (tag("(0,400),(500,1000)"), 0.0, 0.0),
        (tag(listed((NEAR[:3], 0.9))), 0.0, 0.0),
        (f"<answer>{ONE}</answer><answer>{PAIR}</answer>", SHARE / 2, 0.9),  # the first tag
        ("", 0.0, 0.0),
    ],
)
def test_rewards_by_hand(text: str, overlap: float, confidence: float) -> None:
    assert visual_rft_iou(text, GOLD) == pytest.approx(overlap)
    assert visual_rft_confidence(text, GOLD) == pytest.approx(confidence)


@pytest.mark.parametrize("text", ["303", tag(listed(((7, 303, 8, 304), 0.0)))])
def test_y1_of_the_first_box_alone_earns_full_marks(text: str) -> None:
    assert visual_rft_iou(text, GOLD) == visual_rft_confidence(text, GOLD) == 1.0


@pytest.mark.parametrize(
    ("first", "second", "boxes"),
    [
        ("0, 400, 500, 1000", "0.0, 4e2, 500, 1000.0", 1),
        ("0, 400, 500, 1000", "false, 400, 500, 1000", 1),
        ("0, 400, 500, 1000", "-0.0, 400, 500, 1000", 1),
        ("0, 400, 500, 1000", "0, 400, 500, 999.5", 2),
        ("NaN, 400, 500, 1000", "NaN, 400, 500, 1000", 1),
        ("Infinity, 400, 500, 1000", "Infinity, 400, 500, 1000", 1),
    ],
)
def test_boxes_are_repeated_where_their_numbers_are_equal(
    first: str, second: str, boxes: int
) -> None:
    texts = (f"{{'Position': [{box}], 'Confidence': 0.5}}" for box in (first, second))
    assert len(_read(f"[{', '.join(texts)}]")) == boxes


def test_numbers_with_equal_hashes_are_told_apart_by_other_hashes() -> None:
    """Python's hash of k · (2^61 - 1) is 0 for every k, so that a dictionary of such positions takes quadratic time."""
    numbers = [k * sys.hash_info.modulus for k in range(100)]
    assert {hash(number) for number in numbers} == {0}
    assert len({hash(_key(number)) for number in numbers}) == 100


def test_the_box_with_the_highest_confidence_is_matched_first() -> None:
    """It takes the gold box that the other box needs: 0.6 and 0 instead of 0.55 + 0.6 of the best matching."""
    gold = sample("two", [(0, 10, 100, 110), (0, 60, 100, 160)], answer="boxes")
    between, below = (0, 34, 100, 134), (0, 9, 100, 109)
    first = 76 / 124  # `between` overlaps the first by 76 of 124 and the second by 74 of 126
    sure = tag(listed((between, 0.9), (below, 0.5)))
    assert visual_rft_iou(sure, gold) == pytest.approx(first / 2)
    other = tag(listed((between, 0.5), (below, 0.9)))
    assert visual_rft_iou(other, gold) == pytest.approx((99 / 101 + 74 / 126) / 2)


HOSTILE = [
    tag(listed(*[((k, 400, 500 + k, 1000), 0.5) for k in range(2000)])),
    tag("[" * 100_000 + "]"),
    tag("[{" * 20_000 + "]"),
    tag(listed((NEAR, "9" * 400))),
    tag(listed((NEAR, "9" * 5000))),
    tag(listed(((0, 400, 10**400, 1000), 0.5))),
    tag(listed((NEAR, "1e999"))),
    tag(listed((NEAR, "null"), (FAR, 0.5))),
    tag("[{'Position': {'a': 1}, 'Confidence': 0.5}]"),
    tag("[{'Position': [[1], 2, 3, 4], 'Confidence': 0.5}]"),
    "<answer>" * 20_000 + ONE + "</answer>" * 20_000,
    "},{" * 30_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_answers_have_a_finite_score(text: str) -> None:
    for reward in (visual_rft_iou, visual_rft_confidence):
        score = reward(text, GOLD)
        assert isinstance(score, float)
        assert math.isfinite(score)
        assert 0.0 <= score <= 1.0


@pytest.mark.parametrize("gold", [None, [], "text", LEFT, [(0, 0, 1)], [(0, 0, 1, math.nan)]])
def test_an_unreadable_gold_answer_raises(gold: object) -> None:
    for reward in (visual_rft_iou, visual_rft_confidence):
        with pytest.raises(DataError, match="sample gold: gold answer"):
            reward(tag(ONE), sample("gold", gold, answer="boxes"))


def test_pixels_of_a_frame_are_not_read_as_thousandths() -> None:
    for reward, gold, kind in (
        (visual_rft_iou, [LEFT], "boxes"),
        (visual_rft_confidence, [LEFT], "boxes"),
        (visual_rft, LEFT, "box"),
    ):
        framed = Sample(
            id="framed", messages=(), answer=gold, tags={"answer": kind}, info={"frame": (28, 28)}
        )
        with pytest.raises(DataError, match="sample framed: Visual-RFT's rewards read thousandths"):
            reward(tag(ONE), framed)


def test_other_kinds_of_gold_answers_do_not_apply() -> None:
    assert visual_rft_iou("", sample("one", LEFT, answer="box")) is None
    assert visual_rft_confidence("", sample("n", 3, answer="count")) is None
