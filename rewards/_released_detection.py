"""How Visual-RFT's released code grades a list of boxes with confidences. Our own writing."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from vlrft.grading import expects
from vlrft.schema import DataError, Sample

from ._visual_rft import math_agrees, refuse_frame, tagged

_HIT = 0.5  # a box is right above this IoU
_AS_RELEASED = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)


def visual_rft_iou(completion: str, sample: Sample) -> float | None:
    """Visual-RFT's detection reward, the IoU part, in [0, 1]: the IoUs of the right boxes, summed and divided by the
    larger number of boxes.

    The completion's list is `[{'Position': [x1, y1, x2, y2], 'Confidence': c}, …]` in thousandths; without repeated
    positions, and the surest first, each box takes the gold box (tag `answer`: boxes) that it overlaps most of those
    left, and is right above an IoU of 0.5. Its parts are summed: boxes.visual_rft_iou, boxes.visual_rft_confidence and
    format.r1, each with weight 1.

    Defects: math-verify takes the gold list for one number, y1 of its first box, and a completion from which it reads the
    same number earns 1.0, whatever the boxes. The greedy choice may cost a match. A list over several lines earns 0.0; one
    that is cut off is mended, one without an answer tag is read; a box out of range is not refused. Raises DataError for
    a gold answer that is no list of boxes, and where answers are in pixels of a `frame`.
    """
    return _part(completion, sample, 0)


def visual_rft_confidence(completion: str, sample: Sample) -> float | None:
    """Visual-RFT's detection reward, the confidence part, in [0, 1]: the mean over the completion's boxes of c for a right
    one and 1 − c for a wrong one. What is read and what is right, `visual_rft_iou` says.

    Defects, beside those: a wrong box with confidence 0 earns all of it, and so does a single right box, whatever is
    missing. Confidence has no bounds: a right box with 9, or a wrong one with −8, makes good for eight others; only the
    mean is clipped. Raises as visual_rft_iou does.
    """
    return _part(completion, sample, 1)


def _part(completion: str, sample: Sample, part: int) -> float | None:
    if not expects(sample, "boxes"):
        return None
    refuse_frame(sample)
    golds = _golds(sample)
    if math_agrees(completion, _solution(golds)):
        return 1.0
    try:
        earned = _rewards(_read(completion), golds)[part]
    except _AS_RELEASED:
        return 0.0
    return min(max(earned, 0.0), 1.0) if math.isfinite(earned) else 0.0


def _rewards(said: list[Any], golds: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Both at once: what one of them cannot read earns neither."""
    left = list(golds)
    overlap = sure = 0.0
    for one in sorted(said, key=lambda box: box["Confidence"], reverse=True):
        ious = [_iou(gold, one["Position"]) for gold in left]
        best = max(range(len(left)), key=lambda k: ious[k], default=None)
        if best is not None and ious[best] > _HIT:
            del left[best]
            overlap += ious[best]
            sure += one["Confidence"]
        else:
            sure += 1 - one["Confidence"]
    return overlap / max(len(golds), len(said)), sure / len(said)


def _read(completion: str) -> list[Any]:
    """The list of the first answer tag on one line, or of the whole completion; positions that were there before are
    left out. Raises one of _AS_RELEASED."""
    found = tagged(completion, lines=False)
    text = (completion if found is None else found).strip()
    text = text.replace("[[", "[").replace("]]", "]").replace("\n", "")
    text = text.partition("</answer>")[0]
    if not text.endswith("]"):
        text = text.rsplit("},", 1)[0] + "}]"
    given: Any = json.loads(text.replace("'", '"'))
    if type(given[0]) is not dict:
        raise TypeError("no list of boxes")
    unique: dict[Any, Any] = {}
    for box in given:
        unique.setdefault(tuple(box["Position"]), box)
    return list(unique.values())


def _iou(a: Sequence[float], b: Any) -> float:
    x1, y1, x2, y2 = b
    across, down = min(a[2], x2) - max(a[0], x1), min(a[3], y2) - max(a[1], y1)
    if across <= 0 or down <= 0:
        return 0.0
    union = (a[2] - a[0]) * (a[3] - a[1]) + (x2 - x1) * (y2 - y1) - across * down
    found = across * down / union
    return float(found) if found == found else 0.0  # never the best of NaN


def _golds(sample: Sample) -> list[list[float]]:
    given: Any = sample.answer
    boxes = given if isinstance(given, Sequence) and not isinstance(given, str) else ()
    if not boxes or not all(_is_box(box) for box in boxes):
        raise DataError(f"sample {sample.id}: gold answer {given!r} is no list of boxes")
    return [list(box) for box in boxes]


def _is_box(box: Any) -> bool:
    if not isinstance(box, Sequence) or isinstance(box, str) or len(box) != 4:
        return False
    return all(type(v) in (int, float) and math.isfinite(v) for v in box)


def _solution(golds: Sequence[Sequence[float]]) -> str:
    """The gold answer as the released data write it."""
    boxes = ", ".join(f"{{'Position': {list(map(int, box))}, 'Confidence': 1}}" for box in golds)
    return f"<answer>[{boxes}]</answer>"
