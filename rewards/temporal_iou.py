"""A segment of time, by its overlap with the gold segment."""

from __future__ import annotations

import re

from vlrft.grading import expects, read_answer, why_no_answer
from vlrft.schema import Sample, Unreadable, explain_unreadable

from ._segments import gold_segment
from ._time_r1 import time_r1, time_r1_eval, time_r1_scaled

__all__ = ["temporal_iou", "time_r1", "time_r1_eval", "time_r1_scaled"]

# At most nine digits before the point, as of gold answers.
_SECONDS = r"([0-9]{1,9}(?:\.[0-9]{1,20})?)"
_BETWEEN = r"(?:\s*(?(1),|[,-])\s*|(?(1)(?!)|\s+to\s+))"
_SEGMENT = re.compile(rf"(\[\s*)?{_SECONDS}{_BETWEEN}{_SECONDS}(?(1)\s*\])")


def _why(completion: str, sample: Sample) -> Unreadable | None:
    answer = read_answer(completion)
    if answer is None:
        return why_no_answer(completion)
    match = _SEGMENT.fullmatch(answer)
    if match is None:
        return Unreadable(why="no segment start, end in seconds")
    backward = float(match[2]) >= float(match[3])
    return Unreadable(why="segment that ends before or where it starts") if backward else None


@explain_unreadable(_why)
def temporal_iou(completion: str, sample: Sample) -> float | None:
    """Intersection over union in [0, 1] of `start, end`, `start-end`, `start to end` or `[start, end]` in seconds; None
    when the gold answer is not a segment (tag `answer`: segment).

    The segment is the whole text of the answer tag, its numbers decimal and not negative, without a unit; no segment,
    more than one, one that ends before or where it starts, or one without overlap earns nothing. Raises DataError for a
    gold answer that is not two numbers with 0 <= start < end < 10**9. Source: the IoU of temporal grounding (Gao et al.
    2017, arXiv 1705.02101), which Time-R1 and VideoChat-R1 use as a reward.
    """
    if not expects(sample, "segment"):
        return None
    gold_start, gold_end = gold_segment(sample)
    match = _SEGMENT.fullmatch(read_answer(completion) or "")
    if match is None:
        return 0.0
    start, end = float(match[2]), float(match[3])
    shared = min(end, gold_end) - max(start, gold_start)  # not positive where start >= end
    return max(shared, 0.0) / (max(end, gold_end) - min(start, gold_start))
