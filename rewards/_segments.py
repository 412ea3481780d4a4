"""The gold answer of a question of time: a segment in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from vlrft.schema import DataError, Sample

MAX_SECONDS = 10**9  # exclusive: the numbers of an answer have at most nine digits before the point


def gold_segment(sample: Sample) -> tuple[float, float]:
    """Start and end. Raises DataError for a gold answer that is not two numbers with 0 <= start < end < 10**9."""
    gold = sample.answer
    if isinstance(gold, Sequence) and len(gold) == 2:
        numbers = [float(v) for v in gold if _is_time(v)]
        if len(numbers) == 2 and numbers[0] < numbers[1]:
            return numbers[0], numbers[1]
    raise DataError(
        f"sample {sample.id}: gold answer {gold!r} is not a segment (start, end); "
        f"use two numbers of seconds with 0 <= start < end < 10**9"
    )


def _is_time(value: Any) -> bool:
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and value < MAX_SECONDS and not value < 0
