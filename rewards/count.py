"""A whole number, exactly."""

from __future__ import annotations

import re

from vlrft.grading import expects, read_answer, read_integer, why_no_answer
from vlrft.schema import DataError, Sample, Unreadable, best_score, explain_unreadable

from ._released_math import r1v_count as r1v

__all__ = ["count", "fuzzy", "r1v", "r1v_eval"]

_RELEASED = re.compile(r"<answer>\s*(\d{1,18})\s*</answer>")


def _why(completion: str, sample: Sample) -> Unreadable | None:
    answer = read_answer(completion)
    if answer is not None and read_integer(answer) is None:
        return Unreadable(why="no whole number in ASCII digits")
    return why_no_answer(completion)


@explain_unreadable(_why)
def count(completion: str, sample: Sample) -> float | None:
    """1.0 for the right number in ASCII digits, 0.0 otherwise; None when the gold answer is not a count.

    Raises DataError for a gold answer that is not a whole number of at least 0.
    """
    if not expects(sample, "count"):
        return None
    gold = _gold(sample)
    answer = read_answer(completion)
    return float(answer is not None and read_integer(answer) == gold)


@best_score(1.5)
@explain_unreadable(_why)
def fuzzy(completion: str, sample: Sample) -> float | None:
    """1.5 − e for an answer whose relative error e = |gold − answer| / gold is below one half (so 1.5 for the right
    number), else 0.0; None when the gold answer is not a count.

    A gold count of 0 must be answered exactly. Raises DataError as `count` does.
    """
    if not expects(sample, "count"):
        return None
    gold = _gold(sample)
    answer = read_answer(completion)
    number = None if answer is None else read_integer(answer)
    if number is None:
        return 0.0
    error = abs(gold - number) / gold if gold else float(number != 0)
    return 1.5 - error if error < 0.5 else 0.0


def r1v_eval(completion: str, sample: Sample) -> float | None:
    """R1-V's SuperCLEVR evaluation: the first `<answer>` whose text is digits and nothing else.

    Defects: searches the thinking as well; takes the first of several answers; reads digits of any script.
    """
    if not expects(sample, "count"):
        return None
    tag = _RELEASED.search(completion)
    return float(tag is not None and int(tag[1]) == _gold(sample))


def _gold(sample: Sample) -> int:
    gold = sample.answer
    number = read_integer(gold) if isinstance(gold, str) else gold
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise DataError(
            f"sample {sample.id}: gold answer {gold!r} is not a count; use a whole number of at least 0"
        )
    return number
