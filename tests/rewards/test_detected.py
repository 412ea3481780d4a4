"""Answer -> scores of `boxes.detected`: several boxes with a confidence each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from vlrft.rewards.boxes import detected

from vlrft.schema import DataError, Sample
from vlrft.testing.small_policies import sample

LEFT, RIGHT = (0, 0, 500, 1000), (500, 0, 1000, 1000)
HALVES = sample("halves", [LEFT, RIGHT], answer="boxes")
Detection = tuple[Sequence[float], float]


def listed(*boxes: Detection) -> str:
    items = (
        f"{{'Position': {list(box)}, 'Confidence': {confidence}}}" for box, confidence in boxes
    )
    return f"[{', '.join(items)}]"


def scores(answer: str, asked: Sample = HALVES) -> tuple[float, float]:
    result = detected(f"<think></think><answer>{answer}</answer>", asked)
    assert result is not None
    assert list(result) == ["iou", "confidence"]
    return result["iou"], result["confidence"]


SMALL = (0, 0, 250, 1000)  # half of the left one: no more than an IoU of 0.5
MOST = (0, 0, 400, 1000)  # an IoU of 0.8
AWAY = (0, 0, 10, 10)  # next to nothing, in the left one


@pytest.mark.parametrize(
    ("detections", "overlap", "confidence"),
    [
        ([(LEFT, 1.0), (RIGHT, 1.0)], 1.0, 1.0),
        ([(RIGHT, 1), (LEFT, 1)], 1.0, 1.0),
        ([(LEFT, 0.5), (RIGHT, 0.5)], 1.0, 0.75),  # 2 · 0.5 − 0.25 each
        ([(LEFT, 0.0), (RIGHT, 0.0)], 1.0, 0.0),
        ([(LEFT, 1.0)], 0.5, 0.5),  # one too few
        ([(MOST, 1.0), (RIGHT, 1.0)], 0.9, 1.0),
        ([(SMALL, 1.0), (RIGHT, 1.0)], 0.75, 0.0),  # wrong with confidence 1: 1 − 1
        ([(SMALL, 0.5), (RIGHT, 1.0)], 0.75, 0.375),
        ([(SMALL, 0.0), (RIGHT, 1.0)], 0.75, 0.5),
        ([(LEFT, 1.0), (RIGHT, 1.0), (SMALL, 0.0)], 2 / 3, 2 / 3),  # one too many costs both
        ([(LEFT, 1.0), (LEFT, 1.0)], 0.5, 0.0),  # once is right, once wrong
        ([(AWAY, 0.0)], 0.0001, 0.0),  # confidence 0: earns nothing
        ([(AWAY, 1.0)], 0.0001, 0.0),
        ([((500, 1000, 0, 0), 0.0), (RIGHT, 1.0)], 0.5, 0.5),  # inverted
        ([((0, 0, 500, 1001), 1.0)], 0.0, 0.0),  # out of range
    ],
)
def test_scores_by_hand(detections: list[Detection], overlap: float, confidence: float) -> None:
    assert scores(listed(*detections)) == pytest.approx((overlap, confidence))


def test_the_best_confidence_is_the_probability_of_being_right() -> None:
    """The mean reward of four boxes of which three are right, as a function of their confidence."""
    one = sample("one", [LEFT], answer="boxes")

    def mean(confidence: float) -> float:
        """Over many such boxes in one answer, where no sum is negative."""
        many = sample("many", [(k, 0, k + 1, 1000) for k in range(3)], answer="boxes")
        detections = [((k, 0, k + 1, 1000), confidence) for k in range(4)]
        return scores(listed(*detections), many)[1]

    best = mean(0.75)
    assert best == pytest.approx(0.75**2)
    assert all(mean(other) < best for other in (0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0))
    assert scores(listed((LEFT, 0.75)), one)[1] == pytest.approx(1 - 0.25**2)


WHOLE = listed((LEFT, 1.0), (RIGHT, 1.0))


@pytest.mark.parametrize(
    "answer",
    [
        WHOLE.replace("'", '"'),
        WHOLE.replace(", ", ",\n  "),
        WHOLE.replace(" ", ""),
        f"\n{WHOLE}\n".replace("{", "{ ").replace("}", " }"),
    ],
)
def test_accepted_notations_of_the_list(answer: str) -> None:
    assert scores(answer) == (1.0, 1.0)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "[]",
        "No Objects",
        WHOLE[:-1],  # cut off
        WHOLE[1:-1],
        f"{WHOLE} and more",
        WHOLE.replace("}, {", "} {"),
        WHOLE.replace("}]", "},]"),
        WHOLE.replace("1.0", "1.01"),
        WHOLE.replace("1.0", "-1.0"),
        WHOLE.replace("1.0", "nan"),
        WHOLE.replace("1.0", "'1.0'"),
        WHOLE.replace("'Position'", "'Position\""),
        WHOLE.replace("Position", "bbox"),
        WHOLE.replace("500", "٥٠٠"),
        "(0,0),(500,1000);(500,0),(1000,1000)",
        "[{'Position': [0, 0, 500], 'Confidence': 1.0}]",
        "[{'Position': [0, 0, 500, 1000]}]",
    ],
)
def test_an_unreadable_list_earns_nothing(answer: str) -> None:
    assert scores(answer) == (0.0, 0.0)
    assert detected(WHOLE, HALVES) == {"iou": 0.0, "confidence": 0.0}  # no tag


def test_in_a_frame_positions_are_in_its_pixels() -> None:
    framed = Sample(
        id="framed",
        messages=(),
        answer=[(156, 117, 470, 588)],
        tags={"answer": "boxes"},
        info={"frame": (644, 420)},
    )
    assert scores(listed(((100, 49, 303, 247), 1.0)), framed) == (1.0, 1.0)


def test_other_kinds_of_gold_answers_do_not_apply() -> None:
    assert detected(WHOLE, sample("one", LEFT, answer="box")) is None


@pytest.mark.parametrize("gold", [None, (), LEFT, "text", [(0, 0, 1)], [(5, 0, 1, 1)]])
def test_an_unreadable_gold_answer_raises(gold: object) -> None:
    with pytest.raises(DataError, match="sample gold: gold answer"):
        detected("", sample("gold", gold, answer="boxes"))


@pytest.mark.parametrize(
    "text",
    [
        "<answer>" + listed(*[(AWAY, 1.0)] * 2000) + "</answer>",
        "<answer>[" + "{'Position': [" * 140 + "]</answer>",
        "<answer>[{" + " " * 1900 + "]</answer>",
        "<answer>[{'Position':[0" + " " * 1900 + "]</answer>",
        "<answer>[" + "9" * 1900 + "]</answer>",
    ],
)
def test_hostile_answers_earn_nothing_in_little_time(text: str) -> None:
    assert detected(text, HALVES) == {"iou": 0.0, "confidence": 0.0}
