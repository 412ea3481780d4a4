"""Boxes with confidences, written as Visual-RFT's detection prompt asks for them."""

from __future__ import annotations

import re

from vlrft.vision.boxes import Box

_NUMBER = r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*"
# Linear: nothing optional stands beside something that it could be taken for.
_ONE = re.compile(
    r"\s*\{\s*(['\"])Position\1\s*:\s*\["
    + ",".join([_NUMBER] * 4)
    + r"\]\s*,\s*(['\"])Confidence\6\s*:"
    + _NUMBER
    + r"\}\s*"
)


def read_detections(text: str) -> list[tuple[Box, float]] | None:
    """`[{'Position': [x1, y1, x2, y2], 'Confidence': c}, …]`, either quotes, each c in [0, 1]; None for anything
    else, an empty list too. Whether the boxes are sensible ones is for `boxes` to say."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    found: list[tuple[Box, float]] = []
    place, end = 1, len(text) - 1
    while match := _ONE.match(text, place, end):
        x1, y1, x2, y2, confidence = (float(match[k]) for k in (2, 3, 4, 5, 7))
        if confidence > 1:
            return None
        found.append(((x1, y1, x2, y2), confidence))
        if match.end() == end:
            return found
        if text[match.end()] != ",":
            return None
        place = match.end() + 1
    return None
