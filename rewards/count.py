"""A whole number, exactly."""

from __future__ import annotations

from vlrft.grading import expects, read_answer, read_integer
from vlrft.schema import DataError, Sample


def count(completion: str, sample: Sample) -> float | None:
    """1.0 for the right number in ASCII digits, 0.0 otherwise; None when the gold answer is no
    count.

    Raises DataError for a gold answer that is no whole number from 0 on.
    """
    if not expects(sample, "count"):
        return None
    gold = sample.answer
    number = read_integer(gold) if isinstance(gold, str) else gold
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise DataError(
            f"sample {sample.id}: gold answer {gold!r} is no count; use a whole number from 0 on"
        )
    answer = read_answer(completion)
    return float(answer is not None and read_integer(answer) == number)
