"""Visual-RFT's released grading of a box, as `boxes.<name>`. An independent implementation."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from vlrft.grading import expects
from vlrft.schema import DataError, Sample
from vlrft.vision.markup import ignores_markup

from ._visual_rft import find_tagged, refuse_frame

# Linear: each attempt begins at a bracket and ends at the next but one bracket.
_BOX = re.compile(r"\(\s*(\d+)\s*,\s*(\d+)\s*\)\s*,\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_EPSILON = 1e-6


@ignores_markup
def visual_rft(completion: str, sample: Sample) -> float | None:
    """Visual-RFT's training reward: GIoU + 1 of the box in the first answer tag, or without a tag in the whole
    completion; 2.0 for the gold text; 0.0 for no box. In (0, 2] for a proper box.

    Defects: a box without overlap earns up to 1; an inverted box is not refused, and may earn more than 2 or less than
    0; of two or more boxes the first two top left corners are read as one box. Its check by math-verify never finds
    anything in a box, and is left out here. Raises DataError for a gold answer that is not four numbers, and where
    answers are in pixels of a `frame`, which it would read as thousandths.
    """
    if not expects(sample, "box"):
        return None
    refuse_frame(sample)
    gold = _four(sample, sample.answer)
    tag = find_tagged(completion, lines=True)
    answer = (completion if tag is None else tag).strip()
    if answer == "({},{}),({},{})".format(*map(int, gold)):
        return 2.0
    try:
        boxes = [[int(v) / 1000 for v in match] for match in _BOX.findall(answer)]
        corners = [(b[0], b[1]) for b in boxes[:2]] + [(b[2], b[3]) for b in boxes[:1]]
        reward = _giou([int(v) / 1000 for v in gold], [*corners[0], *corners[1]]) + 1
    except (IndexError, ValueError, OverflowError, ZeroDivisionError):  # as released: no box, 0
        return 0.0
    return reward if math.isfinite(reward) else 0.0  # areas beyond the range of a float


@ignores_markup
def visual_rft_eval(completion: str, sample: Sample) -> float | None:
    """Visual-RFT's LISA evaluation: the IoU of the first box anywhere in the output, in thousandths, with the first
    shape's box; 0.0 for no box. None where answers are in pixels of a `frame`, which it would read as thousandths.

    Defects: reads a box in the thinking, and one that is inverted or out of range. The gold box is in the sample's info
    (`first_shape` in pixels of an image of `size`), else it is the gold answer. Raises DataError for a gold answer that
    is not four numbers.
    """
    if not expects(sample, "box") or "frame" in sample.info:
        return None
    gold = [v / 1000 for v in _four(sample, sample.answer)]
    if "first_shape" in sample.info:
        width, height = sample.info["size"]
        pixels = _four(sample, sample.info["first_shape"])
        gold = [v / side for v, side in zip(pixels, (width, height) * 2, strict=True)]
    match = _BOX.search(completion)
    try:
        box = [int(v) / 1000 for v in match.groups()] if match else []
        return _iou(box, gold)
    except (IndexError, ValueError, OverflowError, ZeroDivisionError):  # as released: no box, 0
        return 0.0


def _iou(a: Sequence[float], b: Sequence[float]) -> float:
    shared = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(
        0.0, min(a[3], b[3]) - max(a[1], b[1])
    )
    areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return shared / (areas - shared + _EPSILON)


def _giou(a: Sequence[float], b: Sequence[float]) -> float:
    shared = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(
        0.0, min(a[3], b[3]) - max(a[1], b[1])
    )
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    hull = (max(a[2], b[2]) - min(a[0], b[0])) * (max(a[3], b[3]) - min(a[1], b[1]))
    overlap = shared / union if union > 0 else 0.0
    return overlap - (hull - union) / hull if hull > 0 else overlap


def _four(sample: Sample, gold: Any) -> list[float]:
    numbers = gold if isinstance(gold, Sequence) and not isinstance(gold, str) else ()
    if len(numbers) == 4 and all(type(v) in (int, float) and math.isfinite(v) for v in numbers):
        return [float(v) for v in numbers]
    raise DataError(f"sample {sample.id}: gold answer {gold!r} is not a box (x1, y1, x2, y2)")
