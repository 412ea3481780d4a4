"""A stretch of time, by its overlap with the gold one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Real
from typing import Any

from vlrft.grading import expects, read_answer
from vlrft.schema import DataError, Sample

__all__ = ["temporal_iou"]

LONGEST = 10**9  # seconds: what nine digits can say

_SECONDS = r"([0-9]{1,9}(?:\.[0-9]{1,20})?)"
_SEGMENT = re.compile(rf"(\[\s*)?{_SECONDS}\s*(?(1),|[,-])\s*{_SECONDS}(?(1)\s*\])")


def temporal_iou(completion: str, sample: Sample) -> float | None:
    """Intersection over union in [0, 1] of `start, end`, `start-end` or `[start, end]` in seconds;
    None when the gold answer is no segment (tag `answer`: segment).

    The segment is all of the answer tag, its numbers decimal and not negative, without a unit; no
    segment, more than one, one that ends before or where it starts, or one beside the gold one earns
    nothing. Raises DataError for a gold answer that is not two numbers with 0 <= start < end <
    10**9. Source: temporal grounding's IoU (Gao et al. 2017, arXiv 1705.02101), which Time-R1 and
    VideoChat-R1 take as a reward.
    """
    if not expects(sample, "segment"):
        return None
    gold_start, gold_end = _gold(sample)
    found = _SEGMENT.fullmatch(read_answer(completion) or "")
    if found is None:
        return 0.0
    start, end = float(found[2]), float(found[3])
    shared = min(end, gold_end) - max(start, gold_start)  # at most 0, too, where start >= end
    return max(shared, 0.0) / (max(end, gold_end) - min(start, gold_start))


def _gold(sample: Sample) -> tuple[float, float]:
    given = sample.answer
    if isinstance(given, Sequence) and len(given) == 2:
        numbers = [float(v) for v in given if _within(v)]
        if len(numbers) == 2 and numbers[0] < numbers[1]:
            return numbers[0], numbers[1]
    raise DataError(
        f"sample {sample.id}: gold answer {given!r} is no segment (start, end); "
        f"use two numbers of seconds with 0 <= start < end < 10**9"
    )


def _within(value: Any) -> bool:
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and value < LONGEST and not value < 0
