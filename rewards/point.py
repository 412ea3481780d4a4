"""A point in the image, by whether it is in the gold box."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from vlrft.grading import expects, read_answer, read_point, why_no_answer
from vlrft.schema import DataError, Sample, Unreadable, explain_unreadable
from vlrft.vision.boxes import THOUSAND, Box, is_proper

__all__ = ["point"]


def _why(completion: str, sample: Sample) -> Unreadable | None:
    answer = read_answer(completion)
    if answer is None:
        return why_no_answer(completion)
    at = read_point(answer)
    if at is None:
        return Unreadable(why="no point (x,y)")
    outside = not all(0 <= value <= THOUSAND for value in at)
    return Unreadable(why="point outside of 0 to 1000") if outside else None


@explain_unreadable(_why)
def point(completion: str, sample: Sample) -> float | None:
    """1.0 for one point, such as `(x,y)`, in thousandths of the image that is in the gold box or on its edge, 0.0 otherwise; None
    when the gold answer is not a box to point into (tag `answer`: point).

    The point is the whole text of the answer tag, in any form of `vlrft.grading.read_point`; no point, several points, a negative number or one above 1000 earn
    nothing. Raises DataError for a gold answer that is not four numbers of a proper box within 0 … 1000. Source: the
    grading of a click in ScreenSpot (Cheng et al. 2024, arXiv 2401.10935).
    """
    if not expects(sample, "point"):
        return None
    x1, y1, x2, y2 = _gold(sample)
    at = read_point(read_answer(completion) or "")
    if at is None:
        return 0.0
    x, y = at
    return float(x1 <= x <= x2 and y1 <= y <= y2)


def _gold(sample: Sample) -> Box:
    gold = sample.answer
    if isinstance(gold, Sequence) and len(gold) == 4:
        numbers = [float(v) for v in gold if _is_coordinate(v)]
        if len(numbers) == 4 and is_proper(box := (numbers[0], numbers[1], numbers[2], numbers[3])):
            return box
    raise DataError(
        f"sample {sample.id}: gold answer {gold!r} is not a box (x1, y1, x2, y2) within 0 to 1000 "
        f"with x1 < x2 and y1 < y2"
    )


def _is_coordinate(value: Any) -> bool:
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and value <= THOUSAND and not value < 0
