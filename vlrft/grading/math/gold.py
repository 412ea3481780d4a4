"""Parses a sample's gold answer as mathematics. Raises DataError for one that is not."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vlrft.grading.math.forms import MathAnswer
from vlrft.grading.math.mathematics import read_gold
from vlrft.schema import DataError, Sample

MAX_BITS = 6_000  # of a whole number: as many digits as an answer may have
SHOWN = 200


def gold_answers(sample: Sample) -> tuple[MathAnswer, ...]:
    """The gold answers, each of which is right; one among several may be unreadable and is then compared as written.

    Raises DataError when none can be read: no text or number, empty, unbalanced, or mathematics that the parser does
    not support.
    """
    texts = gold_texts(sample)
    answers = [answer for text in texts if (answer := read_gold(text)) is not None]
    if not any(answer.forms for answer in answers):
        raise DataError(
            f"sample {sample.id}: gold answer {_shorten(sample.answer)} cannot be read as mathematics; "
            f"write it in LaTeX or plain typing, such as '3\\\\sqrt{{2}}', or leave the sample out"
        )
    return tuple(answers)


def gold_texts(sample: Sample) -> tuple[str, ...]:
    """The gold answers as texts. Raises DataError when they are no text, number or list of texts."""
    gold = sample.answer
    several = isinstance(gold, Sequence) and not isinstance(gold, str)
    items = [_text(item) for item in (gold if several else (gold,))]
    texts = tuple(text for text in items if text is not None)
    if not texts or len(texts) < len(items):
        raise DataError(
            f"sample {sample.id}: gold answer {_shorten(gold)} is not a text, a number or a list of texts"
        )
    return texts


def _text(item: object) -> str | None:
    if isinstance(item, str):
        return item.strip() or None
    if isinstance(item, bool) or not isinstance(item, int | float):
        return None
    if isinstance(item, int):
        return str(item) if item.bit_length() < MAX_BITS else None
    return repr(item) if math.isfinite(item) else None


def _shorten(gold: object) -> str:
    """The gold answer in a message, in at most SHOWN characters."""
    try:
        text = repr(gold)
    except ValueError:  # an integer of more digits than Python prints
        return f"of type {type(gold).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
