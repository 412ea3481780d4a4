"""A box, by its overlap with the gold box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from vlrft.grading import (
    MAX_LIST,
    expects,
    normalise_text,
    read_answer,
    read_box,
    read_boxes,
    read_detections,
    read_json_boxes,
    why_no_answer,
)
from vlrft.schema import DataError, Sample, Unreadable, explain_unreadable
from vlrft.vision.boxes import THOUSAND, Box, iou, is_proper, rescale, round_box
from vlrft.vision.boxes import giou as generalised

from ._released_boxes import visual_rft, visual_rft_eval
from ._released_detection import visual_rft_confidence, visual_rft_iou
from ._released_references import qwen_vl_eval, vlm_r1, vlm_r1_eval
from ._unreadable_boxes import why_no_box, why_no_boxes, why_no_json_box

__all__ = [
    "bbox_2d",
    "boxes",
    "detected",
    "detected_iou",
    "giou",
    "matched",
    "qwen_vl_eval",
    "visual_rft",
    "visual_rft_confidence",
    "visual_rft_eval",
    "visual_rft_iou",
    "vlm_r1",
    "vlm_r1_eval",
]

Framed = tuple[Box, tuple[float, float]]  # a box and the width and height of its frame

_HIT = 0.5  # a box is right above this IoU with its partner, as in Visual-RFT


@explain_unreadable(why_no_box)
def boxes(completion: str, sample: Sample) -> float | None:
    """Intersection over union in [0, 1] of a box in thousandths; None when the gold answer is not a box.

    The answer tag holds the box alone, in any form of `vlrft.grading.read_boxes`, such as `(x1,y1),(x2,y2)` or
    `{"bbox_2d": [x1, y1, x2, y2]}`.

    Where the sample's info has a `frame` (width, height), the answer is in pixels of it, and the gold box is rescaled
    to its whole pixels. 0.0 for no box, more than one, or one that is inverted, without area or out of range. Raises
    DataError for a gold answer that is not four numbers of a proper box within 0 … 1000.
    """
    if not expects(sample, "box"):
        return None
    gold, (width, height) = _gold(sample, sample.answer)
    box = _answer_box(completion)
    return 0.0 if box is None else iou(box, gold, width, height)


@explain_unreadable(why_no_json_box)
def bbox_2d(completion: str, sample: Sample) -> float | None:
    """As `boxes`, for an answer in JSON: `{"bbox_2d": [x1, y1, x2, y2]}`, the four numbers alone, or a list of one such
    object, with or without a fence around it (tag `answer`: bbox_2d)."""
    if not expects(sample, "bbox_2d"):
        return None
    gold, (width, height) = _gold(sample, sample.answer)
    found = read_json_boxes(read_answer(completion) or "")
    one = found is not None and len(found) == 1
    return iou(found[0], gold, width, height) if found is not None and one else 0.0


@explain_unreadable(why_no_box)
def giou(completion: str, sample: Sample) -> float | None:
    """(GIoU + 1) / 2 in [0, 1]: as `boxes`, but a box without overlap earns more the closer it is to the gold box.

    0.0 for an answer that `boxes` cannot use; raises as it does. Source: Rezatofighi et al. 2019.
    """
    if not expects(sample, "box"):
        return None
    gold, (width, height) = _gold(sample, sample.answer)
    box = _answer_box(completion)
    if box is None or not is_proper(box, width, height):
        return 0.0
    return (generalised(box, gold) + 1) / 2


@explain_unreadable(why_no_boxes)
def matched(completion: str, sample: Sample) -> float | None:
    """The overlap of several boxes in [0, 1]: the IoUs of the best one-to-one matching, summed and divided by the
    larger number of boxes, so that a box too many costs as much as one too few.

    The gold answer is a list of boxes (tag `answer`: boxes); the answer tag holds the completion's boxes and nothing else,
    in any form of `vlrft.grading.read_boxes`. 0.0 where one of them cannot be read. Raises DataError for a gold answer
    that is unreadable or missing.
    """
    if not expects(sample, "boxes"):
        return None
    gold_boxes = _gold_boxes(sample)
    answer = read_answer(completion, MAX_LIST)
    answer_boxes = read_boxes(answer or "")
    if answer_boxes is None:
        return 0.0
    overlaps = _overlaps(answer_boxes, gold_boxes)
    return sum(overlaps) / max(len(answer_boxes), len(gold_boxes))


def detected(completion: str, sample: Sample) -> Mapping[str, float] | None:
    """Several boxes, each with a confidence: the scores `iou`, as `matched`, and `confidence`, both in [0, 1].

    The text of the answer tag is `[{'Position': [x1, y1, x2, y2], 'Confidence': c}, …]`, with c in [0, 1]. A box is
    right (h = 1) above an IoU of 0.5 with its partner, else wrong (h = 0); over n boxes of the answer and m gold
    boxes

        confidence = max(0, Σ (2·c·h − c²)) / max(n, m)

    whose mean is highest where c is the probability that the box is right; it is 0 for a wrong box with c = 0, and 1
    when every box is right with c = 1. 0.0 for a list that cannot be read or is empty. Where the sample's info has a text
    `none`, the gold list may be empty: that text then scores 1.0 twice, and any other answer 0.0. Otherwise gold answers
    and errors are those of `matched`. Source: after Visual-RFT (arXiv 2503.01785), whose confidence reward pays for wrong
    boxes: `visual_rft_confidence`.
    """
    if not expects(sample, "boxes"):
        return None
    if _has_none(sample):
        text = normalise_text(read_answer(completion, MAX_LIST) or "")
        right = float(text == normalise_text(str(sample.info["none"])))
        return {"iou": right, "confidence": right}
    gold_boxes = _gold_boxes(sample)
    detections = read_detections(read_answer(completion, MAX_LIST) or "")
    if not detections:
        return {"iou": 0.0, "confidence": 0.0}
    ious = _overlaps([box for box, _ in detections], gold_boxes)
    count = max(len(detections), len(gold_boxes))
    confidence = sum(2 * c * (v > _HIT) - c * c for v, (_, c) in zip(ious, detections, strict=True))
    return {"iou": sum(ious) / count, "confidence": max(0.0, confidence) / count}


def _why_no_list(completion: str, sample: Sample) -> Unreadable | None:
    answer = read_answer(completion, MAX_LIST)
    if answer is None:
        return why_no_answer(completion, MAX_LIST)
    nothing = normalise_text(str(sample.info.get("none", "")))
    if read_detections(answer) or normalise_text(answer) == nothing:
        return None
    return Unreadable(why="no list of Position and Confidence")


@explain_unreadable(_why_no_list)
def detected_iou(completion: str, sample: Sample) -> float | None:
    """The score `iou` of `detected` alone, for a grader, which is one number."""
    scores = detected(completion, sample)
    return None if scores is None else scores["iou"]


def _has_none(sample: Sample) -> bool:
    """Whether the gold answer is that there is no box."""
    return "none" in sample.info and isinstance(sample.answer, list | tuple) and not sample.answer


def _overlaps(answer_boxes: Sequence[Box], gold_boxes: Sequence[Framed]) -> list[float]:
    """The IoU of each box with its partner in the best one-to-one matching; 0 without a partner."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise ImportError("boxes.matched needs scipy: pip install scipy") from None

    table = [[iou(box, gold, *frame) for gold, frame in gold_boxes] for box in answer_boxes]
    ious = [0.0] * len(answer_boxes)
    for row, column in zip(*linear_sum_assignment(table, maximize=True), strict=True):
        ious[row] = table[row][column]
    return ious


def _answer_box(completion: str) -> Box | None:
    answer = read_answer(completion)
    return None if answer is None else read_box(answer)


def _gold_boxes(sample: Sample) -> list[Framed]:
    gold: Any = sample.answer
    if not isinstance(gold, Sequence) or isinstance(gold, str) or not gold:
        raise DataError(f"sample {sample.id}: gold answer {gold!r} is not a list of boxes")
    return [_gold(sample, box) for box in gold]


def _gold(sample: Sample, gold: Any) -> Framed:
    """The gold box and the frame that both it and the answer are in."""
    if isinstance(gold, Sequence) and len(gold) == 4:
        numbers = [float(v) for v in gold if isinstance(v, Real) and not isinstance(v, bool)]
        if len(numbers) == 4 and is_proper(box := (numbers[0], numbers[1], numbers[2], numbers[3])):
            whole = (THOUSAND, THOUSAND)
            if "frame" not in sample.info:
                return box, whole
            frame = (float(sample.info["frame"][0]), float(sample.info["frame"][1]))
            box = round_box(rescale(box, whole, frame))
            if is_proper(box, *frame):
                return box, frame
    raise DataError(
        f"sample {sample.id}: gold answer {gold!r} is not a box (x1, y1, x2, y2) within 0 to 1000"
    )
