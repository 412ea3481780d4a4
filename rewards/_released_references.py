"""Released grading of the box that a referring expression asks for, as `boxes.<name>`. An independent implementation."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from vlrft.grading import expects
from vlrft.schema import DataError, Sample
from vlrft.vision.markup import ignores_markup

from ._visual_rft import find_tagged

_HIT = 0.5
_NUMBERS = re.compile(r"\[(\d+),\s*(\d+),\s*(\d+),\s*(\d+)\]")


@ignores_markup
def vlm_r1(completion: str, sample: Sample) -> float | None:
    """VLM-R1's training reward for referring expressions, in [0, 1]: the IoU, in pixels of the picture, of the first
    `[x1, y1, x2, y2]` of whole numbers in the first answer tag, which is in pixels of the resized picture.

    The IoU counts the last pixel of a box in the intersection, and a box of one pixel has none. None where the answer is
    not in JSON (tag `answer`: bbox_2d). Defects: any text around the numbers is accepted; a box out of range is not refused.
    Raises DataError where the sample has no box, size or frame. Source: VLM-R1, `qwen_module.py`, `iou_reward`.
    """
    return _iou_of(completion, sample, braces=False)


@ignores_markup
def vlm_r1_eval(completion: str, sample: Sample) -> float | None:
    """VLM-R1's evaluation of referring expressions: 1.0 if the IoU of `vlm_r1` is above 0.5, else 0.0.

    Here the numbers have to be inside braces; of several lists in braces the last counts. Applies to what `vlm_r1` applies
    to and raises as it does. Source: VLM-R1, `src/eval/test_rec_r1.py` (commit 90052f4).
    """
    iou = _iou_of(completion, sample, braces=True)
    return None if iou is None else float(iou > _HIT)


@ignores_markup
def qwen_vl_eval(completion: str, sample: Sample) -> float | None:
    """Qwen-VL's evaluation of referring expressions: 1.0 if the first `(x1,y1),(x2,y2)` anywhere in the output has an IoU
    of at least 0.5 with the gold box, else 0.0.

    The output is in 999ths of the picture's sides, the gold box in its pixels. None where the answer is in JSON or in pixels
    of a `frame`. Defects: reads a box in the thinking, and one that is inverted or out of range. Raises DataError where the
    sample has no box or size. Source: Qwen-VL, `eval_mm/evaluate_grounding.py` (commit 10cb904).
    """
    if not expects(sample, "box") or "frame" in sample.info:
        return None
    gold, (width, height) = _gold(sample)
    box = _first_corners(completion)
    if box is None:
        return 0.0
    x1, y1, x2, y2 = (v / 999 * side for v, side in zip(box, (width, height) * 2, strict=True))
    across, down = min(x2, gold[2]) - max(x1, gold[0]), min(y2, gold[3]) - max(y1, gold[1])
    shared = max(across, 0.0) * max(down, 0.0)
    union = (x2 - x1) * (y2 - y1) + (gold[2] - gold[0]) * (gold[3] - gold[1]) - shared
    return float(union != 0 and shared / union >= _HIT)


def _iou_of(completion: str, sample: Sample, *, braces: bool) -> float | None:
    if not expects(sample, "bbox_2d"):
        return None
    gold, (width, height) = _gold(sample)
    frame = sample.info.get("frame")
    if frame is None:
        raise DataError(f"sample {sample.id}: no frame in which its answer is written")
    answer = (find_tagged(completion, lines=True) or "").strip()
    matches = list(_NUMBERS.finditer(answer))
    if braces:
        first, last = answer.find("{"), answer.rfind("}")
        matches = [m for m in matches if first >= 0 and first < m.start() and m.end() <= last][-1:]
    if not matches:
        return 0.0
    try:
        x1, y1, x2, y2 = (int(v) for v in matches[0].groups())
        across, down = width / frame[0], height / frame[1]
        box = (x1 * across, y1 * down, x2 * across, y2 * down)
    except (ValueError, OverflowError):  # more digits than Python reads
        return 0.0
    return _pixel_iou(box, gold)


def _pixel_iou(a: Sequence[float], b: Sequence[float]) -> float:
    left, top = max(a[0], b[0]), max(a[1], b[1])
    right, bottom = min(a[2] - 1, b[2] - 1), min(a[3] - 1, b[3] - 1)
    shared = 0.0
    if left < right and top < bottom:
        shared = (right - left + 1) * (bottom - top + 1)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    iou = shared / union if union else 0.0
    return iou if math.isfinite(iou) else 0.0


def _first_corners(text: str) -> tuple[float, float, float, float] | None:
    """The four numbers of the first `(…),(…)` on one line, as the pattern `\\((.*?)\\),\\((.*?)\\)` finds it; None where
    there is none, or where it has no numbers."""
    for line in text.split("\n"):
        start = line.find("(")
        middle = line.find("),(", start + 1)
        end = line.find(")", middle + 3)
        if min(start, middle, end) < 0:
            continue
        try:
            x1, y1 = map(float, line[start + 1 : middle].split(","))
            x2, y2 = map(float, line[middle + 3 : end].split(","))
        except ValueError:
            return None
        box = (x1, y1, x2, y2)
        return box if all(map(math.isfinite, box)) else None
    return None


def _gold(sample: Sample) -> tuple[Sequence[float], tuple[float, float]]:
    """The gold box (x1, y1, x2, y2) and the picture's size, in pixels."""
    box: Any = sample.info.get("box")
    size: Any = sample.info.get("size")
    for numbers, count in ((box, 4), (size, 2)):
        good = isinstance(numbers, Sequence) and not isinstance(numbers, str)
        if not good or len(numbers) != count or not all(type(v) in (int, float) for v in numbers):
            raise DataError(f"sample {sample.id}: no gold box in pixels with its picture's size")
    return box, (float(size[0]), float(size[1]))
