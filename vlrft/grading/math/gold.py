"""A sample's gold answer as mathematics. Raises DataError where it is none."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vlrft.grading.math.forms import Answer
from vlrft.grading.math.mathematics import read_gold
from vlrft.schema import DataError, Sample


def gold_answers(sample: Sample) -> tuple[Answer, ...]:
    """The gold answers, of which any will do; one beside others may be met as it is written only.

    Raises DataError when none can be read: no text or number, empty, unbalanced, or no mathematics
    that we read.
    """
    texts = gold_texts(sample)
    read = [answer for text in texts if (answer := read_gold(text)) is not None]
    if not any(answer.forms for answer in read):
        raise DataError(
            f"sample {sample.id}: gold answer {sample.answer!r} cannot be read as mathematics; "
            f"write it in LaTeX or plain typing, such as '3\\\\sqrt{{2}}', or leave the sample out"
        )
    return tuple(read)


def gold_texts(sample: Sample) -> tuple[str, ...]:
    """The gold answers as texts. Raises DataError for what is no text, number or list of texts."""
    given = sample.answer
    several = isinstance(given, Sequence) and not isinstance(given, str)
    texts = [_text(one) for one in (given if several else (given,))]
    known = tuple(text for text in texts if text is not None)
    if not known or len(known) < len(texts):
        raise DataError(
            f"sample {sample.id}: gold answer {given!r} is no text, number or list of texts"
        )
    return known


def _text(given: object) -> str | None:
    if isinstance(given, str):
        return given.strip() or None
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        return None
    return repr(given)
