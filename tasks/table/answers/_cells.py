"""Numbers and texts in gold cells."""

from __future__ import annotations

import json
import math
from numbers import Real
from typing import Any

from vlrft.data import strip_answer_tag
from vlrft.grading import read_answer

SHOWN = 80  # characters of a cell in messages


def show(cell: Any) -> str:
    """A cell in a message."""
    text = repr(cell)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def strip_tags(cell: Any) -> Any:
    """A text without its answer tag, and without the thinking before it; anything else unchanged."""
    if not isinstance(cell, str):
        return cell
    bare = strip_answer_tag(cell)
    if bare is cell and "<answer>" in cell:
        bare = read_answer(cell) or cell
    return bare.strip() if isinstance(bare, str) else bare


def read_text(cell: Any) -> str:
    """A text, or a number as one. Raises ValueError for another cell and for an empty one."""
    value = strip_tags(cell)
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"the gold answer {show(cell)} is no number")
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else str(value)
    if not isinstance(value, str):
        raise ValueError(f"the gold answer {show(cell)} is neither a text nor a number")
    if not value:
        raise ValueError("the gold answer is empty")
    return value


def read_numbers(cell: Any) -> list[float] | None:
    """The numbers of a list, or of a text with one such as `[1, 2.5]`; None for anything else."""
    value = strip_tags(cell)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, list | tuple) or not value:
        return None
    if not all(isinstance(v, Real) and not isinstance(v, bool) for v in value):
        return None
    return [float(v) for v in value]
