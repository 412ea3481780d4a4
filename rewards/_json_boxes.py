"""Parses a box written as JSON, as Qwen2.5-VL and VLM-R1's prompt write it."""

from __future__ import annotations

import json
import re
from typing import Any

from vlrft.vision.boxes import Box

KEYS = ("bbox_2d", "bbox", "box")

_FENCE = re.compile(r"```(?:json)?([^`]*)```")


def read_json_box(text: str) -> Box | None:
    """The box of `[x1, y1, x2, y2]`, of `{"bbox_2d": [x1, y1, x2, y2], …}` (or `bbox`, `box`), or of a list of one such
    object, with or without a fence around it; None for any other text, for two boxes too. The range and the area of the box
    are not checked. `text`: a short one, such as `read_answer` returns."""
    text = text.strip()
    fence = _FENCE.fullmatch(text)
    try:
        value: Any = json.loads(fence[1] if fence else text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        boxes = [value[key] for key in KEYS if key in value]
        value = boxes[0] if len(boxes) == 1 else None
    if not isinstance(value, list) or len(value) != 4:
        return None
    if not all(type(v) in (int, float) and abs(v) < 1e9 for v in value):
        return None
    x1, y1, x2, y2 = map(float, value)
    return x1, y1, x2, y2
