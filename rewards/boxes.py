"""A box, by its overlap with the gold one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from vlrft.grading import expects, read_answer, read_box
from vlrft.schema import DataError, Sample
from vlrft.vision.boxes import THOUSAND, Box, iou, is_proper, rescale, round_box
from vlrft.vision.boxes import giou as generalised

from ._detections import read_detections
from ._released_boxes import visual_rft, visual_rft_eval
from ._released_detection import visual_rft_confidence, visual_rft_iou

__all__ = [
    "boxes",
    "detected",
    "giou",
    "matched",
    "visual_rft",
    "visual_rft_confidence",
    "visual_rft_eval",
    "visual_rft_iou",
]

Framed = tuple[Box, tuple[float, float]]  # a box and the width and height of its frame

_BETWEEN = re.compile(r"[;\n]")
_HIT = 0.5  # a box is right above this IoU with its partner, as in Visual-RFT


def boxes(completion: str, sample: Sample) -> float | None:
    """Intersection over union in [0, 1] of `(x1,y1),(x2,y2)` in thousandths; None when the gold
    answer is no box.

    Where the sample's info has a `frame` (width, height), the answer is in pixels of it, and the gold
    box is brought to its whole pixels. 0.0 for no box, more than one, or one that is inverted,
    without area or out of range. Raises DataError for a gold answer that is not four numbers of a
    proper box within 0 … 1000.
    """
    if not expects(sample, "box"):
        return None
    gold, (width, height) = _gold(sample, sample.answer)
    box = _said(completion)
    return 0.0 if box is None else iou(box, gold, width, height)


def giou(completion: str, sample: Sample) -> float | None:
    """(GIoU + 1) / 2 in [0, 1]: as `boxes`, but a box beside the gold one earns more the nearer it is.

    0.0 for what `boxes` cannot use; raises as it does. Source: Rezatofighi et al. 2019.
    """
    if not expects(sample, "box"):
        return None
    gold, (width, height) = _gold(sample, sample.answer)
    box = _said(completion)
    if box is None or not is_proper(box, width, height):
        return 0.0
    return (generalised(box, gold) + 1) / 2


def matched(completion: str, sample: Sample) -> float | None:
    """The overlap of several boxes in [0, 1]: the best one-to-one matching's IoUs, summed and divided
    by the larger number of boxes, so that a box too many costs as much as one too few.

    The gold answer is a list of boxes (tag `answer`: boxes); the completion's stand in its tag with a
    semicolon, a line break or both between them. 0.0 where one of them cannot be read. Raises DataError for
    an unreadable gold answer or none.
    """
    if not expects(sample, "boxes"):
        return None
    golds = _golds(sample)
    answer = read_answer(completion)
    said = [read_box(part) for part in _BETWEEN.split(answer or "") if part.strip()]
    found = [box for box in said if box is not None]
    if not found or len(found) < len(said):
        return 0.0
    return sum(_overlaps(found, golds)) / max(len(found), len(golds))


def detected(completion: str, sample: Sample) -> Mapping[str, float] | None:
    """Several boxes, each with a confidence: the scores `iou`, as `matched`, and `confidence`, both in [0, 1].

    The answer tag holds `[{'Position': [x1, y1, x2, y2], 'Confidence': c}, …]`, with c in [0, 1]. A box is right (h = 1)
    above an IoU of 0.5 with its partner, else wrong (h = 0); over n boxes said and m gold ones

        confidence = max(0, Σ (2·c·h − c²)) / max(n, m)

    which is highest in the mean where c is the chance of being right, gives nothing for a wrong box that claims
    nothing, and 1 for all boxes, right and sure. 0.0 for a list that cannot be read or is empty. Gold answers are as
    for `matched`, and so is what raises. Source: after Visual-RFT (arXiv 2503.01785), whose confidence reward pays for wrong
    boxes: `visual_rft_confidence`.
    """
    if not expects(sample, "boxes"):
        return None
    golds = _golds(sample)
    said = read_detections(read_answer(completion) or "")
    if not said:
        return {"iou": 0.0, "confidence": 0.0}
    found = _overlaps([box for box, _ in said], golds)
    whole = max(len(said), len(golds))
    sure = sum(2 * c * (v > _HIT) - c * c for v, (_, c) in zip(found, said, strict=True))
    return {"iou": sum(found) / whole, "confidence": max(0.0, sure) / whole}


def _overlaps(said: Sequence[Box], golds: Sequence[Framed]) -> list[float]:
    """IoU of each box with its partner in the best one-to-one matching; 0 without one."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise ImportError("boxes.matched needs scipy: pip install scipy") from None

    table = [[iou(box, gold, *frame) for gold, frame in golds] for box in said]
    found = [0.0] * len(said)
    for row, column in zip(*linear_sum_assignment(table, maximize=True), strict=True):
        found[row] = table[row][column]
    return found


def _said(completion: str) -> Box | None:
    answer = read_answer(completion)
    return None if answer is None else read_box(answer)


def _golds(sample: Sample) -> list[Framed]:
    given: Any = sample.answer
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise DataError(f"sample {sample.id}: gold answer {given!r} is no list of boxes")
    return [_gold(sample, one) for one in given]


def _gold(sample: Sample, given: Any) -> Framed:
    """The gold box and the frame that it and the answer are in."""
    if isinstance(given, Sequence) and len(given) == 4:
        numbers = [float(v) for v in given if isinstance(v, Real) and not isinstance(v, bool)]
        if len(numbers) == 4 and is_proper(box := (numbers[0], numbers[1], numbers[2], numbers[3])):
            whole = (THOUSAND, THOUSAND)
            if "frame" not in sample.info:
                return box, whole
            frame = (float(sample.info["frame"][0]), float(sample.info["frame"][1]))
            box = round_box(rescale(box, whole, frame))
            if is_proper(box, *frame):
                return box, frame
    raise DataError(
        f"sample {sample.id}: gold answer {given!r} is no box (x1, y1, x2, y2) within 0 to 1000"
    )
