"""Visual-RFT's released grading of a list of boxes with confidences. An independent implementation."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from vlrft.grading import expects
from vlrft.schema import DataError, Sample
from vlrft.vision.markup import ignores_markup

from ._visual_rft import find_tagged, math_agrees, refuse_frame

_HIT = 0.5  # a box is right above this IoU
_AS_RELEASED = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)


@ignores_markup
def visual_rft_iou(completion: str, sample: Sample) -> float | None:
    """Visual-RFT's detection reward, the IoU part, in [0, 1]: the IoUs of the right boxes, summed and divided by the
    larger number of boxes.

    The completion's list is `[{'Position': [x1, y1, x2, y2], 'Confidence': c}, …]` in thousandths. Repeated positions
    are dropped; in order of falling confidence each box is matched to the remaining gold box (tag `answer`: boxes) with
    the highest IoU, and is right above an IoU of 0.5. The authors' reward is a sum: boxes.visual_rft_iou,
    boxes.visual_rft_confidence and format.r1, each with weight 1.

    Defects: math-verify reads the gold list as one number, y1 of its first box, and a completion from which it reads
    the same number earns 1.0, whatever the boxes. The greedy matching may miss a match. A list over several lines
    earns 0.0; a truncated list is completed, one without an answer tag is read; a box out of range is not refused.
    Where there is no object (an empty gold list, and `none` in the sample's info), every answer earns 0.0, the right one
    too. Raises DataError for a gold answer that is not a list of boxes, and where answers are in pixels of a `frame`.
    """
    return _part(completion, sample, 0)


@ignores_markup
def visual_rft_confidence(completion: str, sample: Sample) -> float | None:
    """Visual-RFT's detection reward, the confidence part, in [0, 1]: the mean over the completion's boxes of c for a
    right box and 1 − c for a wrong one. Boxes are read and matched as in `visual_rft_iou`.

    Defects, in addition to those: a wrong box with confidence 0 earns 1.0, and so does a single right box, whatever
    boxes are missing. Confidence has no bounds: a right box with 9, or a wrong one with −8, makes up for eight others;
    only the mean is clipped. Raises as visual_rft_iou does.
    """
    return _part(completion, sample, 1)


def _part(completion: str, sample: Sample, part: int) -> float | None:
    if not expects(sample, "boxes"):
        return None
    refuse_frame(sample)
    if "none" in sample.info and isinstance(sample.answer, list | tuple) and not sample.answer:
        return 0.0
    gold_boxes = _gold_boxes(sample)
    if math_agrees(completion, _solution(gold_boxes)):
        return 1.0
    try:
        reward = _rewards(_read(completion), gold_boxes)[part]
    except _AS_RELEASED:
        return 0.0
    return min(max(reward, 0.0), 1.0) if math.isfinite(reward) else 0.0


def _rewards(boxes: list[Any], gold_boxes: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Both parts at once: boxes that one of them cannot read earn neither."""
    remaining = list(gold_boxes)
    overlap = confidence = 0.0
    for box in sorted(boxes, key=lambda box: box["Confidence"], reverse=True):
        ious = [_iou(gold, box["Position"]) for gold in remaining]
        best = max(range(len(remaining)), key=lambda k: ious[k], default=None)
        if best is not None and ious[best] > _HIT:
            del remaining[best]
            overlap += ious[best]
            confidence += box["Confidence"]
        else:
            confidence += 1 - box["Confidence"]
    return overlap / max(len(gold_boxes), len(boxes)), confidence / len(boxes)


def _read(completion: str) -> list[Any]:
    """The list in the first answer tag on one line, or in the whole completion, without repeated positions. Raises one
    of _AS_RELEASED."""
    tag = find_tagged(completion, lines=False)
    text = (completion if tag is None else tag).strip()
    text = text.replace("[[", "[").replace("]]", "]").replace("\n", "")
    text = text.partition("</answer>")[0]
    if not text.endswith("]"):
        text = text.rsplit("},", 1)[0] + "}]"
    boxes: Any = json.loads(text.replace("'", '"'))
    if type(boxes[0]) is not dict:
        raise TypeError("not a list of boxes")
    unique: dict[Any, Any] = {}
    for box in boxes:
        unique.setdefault(tuple(map(_key, box["Position"])), box)
    return list(unique.values())


def _key(value: Any) -> Any:
    """Equal for equal values. A number as text, since texts have no equal hashes that a completion could choose."""
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return ("", value)


def _iou(a: Sequence[float], b: Any) -> float:
    x1, y1, x2, y2 = b
    across, down = min(a[2], x2) - max(a[0], x1), min(a[3], y2) - max(a[1], y1)
    if across <= 0 or down <= 0:
        return 0.0
    union = (a[2] - a[0]) * (a[3] - a[1]) + (x2 - x1) * (y2 - y1) - across * down
    iou = across * down / union
    return float(iou) if iou == iou else 0.0  # NaN would be chosen as the best


def _gold_boxes(sample: Sample) -> list[list[float]]:
    gold: Any = sample.answer
    boxes = gold if isinstance(gold, Sequence) and not isinstance(gold, str) else ()
    if not boxes or not all(_is_box(box) for box in boxes):
        raise DataError(f"sample {sample.id}: gold answer {gold!r} is not a list of boxes")
    return [list(box) for box in boxes]


def _is_box(box: Any) -> bool:
    if not isinstance(box, Sequence) or isinstance(box, str) or len(box) != 4:
        return False
    return all(type(v) in (int, float) and math.isfinite(v) for v in box)


def _solution(gold_boxes: Sequence[Sequence[float]]) -> str:
    """The gold answer in the notation of the released data."""
    boxes = ", ".join(
        f"{{'Position': {list(map(int, box))}, 'Confidence': 1}}" for box in gold_boxes
    )
    return f"<answer>[{boxes}]</answer>"
