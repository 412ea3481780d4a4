"""A point on the picture, by whether it lies in the gold box."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Real
from typing import Any

from vlrft.grading import expects, read_answer
from vlrft.schema import DataError, Sample
from vlrft.vision.boxes import THOUSAND, Box, is_proper

__all__ = ["point"]

_NUMBER = r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*"
_POINT = re.compile(rf"\({_NUMBER},{_NUMBER}\)")


def point(completion: str, sample: Sample) -> float | None:
    """1.0 for one `(x,y)` in thousandths of the picture that lies in the gold box or on its edge, 0.0
    otherwise; None when the gold answer is no box to point into (tag `answer`: point).

    The point is all of the answer tag; no point, several, a negative number or one above 1000 earns
    nothing. Raises DataError for a gold answer that is not four numbers of a proper box within
    0 … 1000. Source: how ScreenSpot (Cheng et al. 2024, arXiv 2401.10935) counts a click.
    """
    if not expects(sample, "point"):
        return None
    x1, y1, x2, y2 = _gold(sample)
    found = _POINT.fullmatch(read_answer(completion) or "")
    if found is None:
        return 0.0
    x, y = float(found[1]), float(found[2])
    return float(x1 <= x <= x2 and y1 <= y <= y2)


def _gold(sample: Sample) -> Box:
    given = sample.answer
    if isinstance(given, Sequence) and len(given) == 4:
        numbers = [float(v) for v in given if _within(v)]
        if len(numbers) == 4 and is_proper(box := (numbers[0], numbers[1], numbers[2], numbers[3])):
            return box
    raise DataError(
        f"sample {sample.id}: gold answer {given!r} is no box (x1, y1, x2, y2) within 0 to 1000 "
        f"with x1 < x2 and y1 < y2"
    )


def _within(value: Any) -> bool:
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and value <= THOUSAND and not value < 0
