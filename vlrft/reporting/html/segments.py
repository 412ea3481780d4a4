"""Segments of time, marked on the strip of a video: the gold one and the predicted one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from vlrft.grading import read_answer
from vlrft.reporting.html.overlay import Overlay

_NUMBER = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
_SEGMENT = re.compile(rf"{_NUMBER}\s*(?:,|-|to|and)\s*{_NUMBER}", re.IGNORECASE)


def segment_overlays(answer: Any, text: str, seconds: float) -> tuple[Overlay, ...]:
    """The gold segment and the one that the completion `text` names, when the gold answer is a segment of a video that lasts
    `seconds`. It is searched for in the answer tag, as nothing is graded here."""
    if not _is_segment(answer):
        return ()
    found = _SEGMENT.search(read_answer(text) or "")
    predicted = (
        () if found is None else _span("predicted", float(found[1]), float(found[2]), seconds)
    )
    return (*_span("true", float(answer[0]), float(answer[1]), seconds), *predicted)


def _is_segment(answer: Any) -> bool:
    return (
        isinstance(answer, Sequence)
        and len(answer) == 2
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in answer)
    )


def _span(kind: str, start: float, end: float, seconds: float) -> tuple[Overlay, ...]:
    """The part of a segment that is within the video; () for none."""
    left, right = max(start, 0.0) * 100 / seconds, min(end, seconds) * 100 / seconds
    if not left < right:
        return ()
    return (Overlay(kind=kind, left=left, top=0, width=right - left, height=100),)
