"""Parses boxes with confidences, in the notation that Visual-RFT's detection prompt asks for."""

from __future__ import annotations

import re

from vlrft.vision.boxes import Box

_NUMBER = r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*"
# Linear: no optional part is next to a part that it could match as well.
_ONE = re.compile(
    r"\s*\{\s*(['\"])Position\1\s*:\s*\["
    + ",".join([_NUMBER] * 4)
    + r"\]\s*,\s*(['\"])Confidence\6\s*:"
    + _NUMBER
    + r"\}\s*"
)


def read_detections(text: str) -> list[tuple[Box, float]] | None:
    """The boxes and confidences of `[{'Position': [x1, y1, x2, y2], 'Confidence': c}, …]`, with either kind of quotes,
    each c in [0, 1]; None for any other text, an empty list too. The boxes' range and area are not checked."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    detections: list[tuple[Box, float]] = []
    place, end = 1, len(text) - 1
    while match := _ONE.match(text, place, end):
        x1, y1, x2, y2, confidence = (float(match[k]) for k in (2, 3, 4, 5, 7))
        if confidence > 1:
            return None
        detections.append(((x1, y1, x2, y2), confidence))
        if match.end() == end:
            return detections
        if text[match.end()] != ",":
            return None
        place = match.end() + 1
    return None
