"""Reads boxes and points in every form in which released models write them. A form says nothing of the unit: see
`vlrft.vision.boxes`.

    (x1,y1),(x2,y2)                                       a box, as the packs' prompts ask for it
    [x1, y1, x2, y2]                                      as lists of numbers
    {"bbox_2d": [x1, y1, x2, y2], "label": "cat"}         Qwen2.5-VL, Qwen3-VL; the key may be bbox or box
    <|object_ref_start|>cat<|object_ref_end|><|box_start|>(x1,y1),(x2,y2)<|box_end|>          Qwen2-VL
    (x,y)   [x, y]   {"point_2d": [x, y], "label": "cat"}   <|box_start|>(x,y)<|box_end|>     points

JSON may be in a code fence. Several boxes are a JSON list, or follow each other after semicolons or line breaks; after
Qwen2-VL's markup they may follow directly. The whole text must be of one form. Range and area are not checked.
Sources: the model cards and cookbooks of Qwen2-VL, Qwen2.5-VL and Qwen3-VL (github.com/QwenLM/Qwen3-VL).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from vlrft.grading.json_text import read_json
from vlrft.vision.boxes import Box
from vlrft.vision.markup import BOX_END, BOX_START, REF_END, REF_START

Point = tuple[float, float]

BOX_KEYS = ("bbox_2d", "bbox", "box")
POINT_KEYS = ("point_2d", "point")
LARGEST = 1e9  # coordinates are smaller

_NUMBER = r"\s*(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)\s*"
_PAIR = rf"\({_NUMBER},{_NUMBER}\)"
_CORNERS = rf"{_PAIR}\s*,\s*{_PAIR}"
_BOX = re.compile(rf"\s*{_CORNERS}\s*")
_POINT = re.compile(rf"\s*{_PAIR}\s*")
_REFERENCE = rf"(?:\s*{re.escape(REF_START)}[^<]*{re.escape(REF_END)})?"
_MARKED = re.compile(
    rf"{_REFERENCE}\s*{re.escape(BOX_START)}\s*({_CORNERS})\s*{re.escape(BOX_END)}\s*[;,]?"
)
_MARKED_POINT = re.compile(
    rf"{_REFERENCE}\s*{re.escape(BOX_START)}\s*{_PAIR}\s*{re.escape(BOX_END)}\s*"
)
_BETWEEN = re.compile(r"[;\n]")
_SEARCHED_CORNER = r"\(\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\)"
_SEARCHED_BOX = re.compile(rf"{_SEARCHED_CORNER}\s*,\s*{_SEARCHED_CORNER}")


def read_boxes(text: str) -> tuple[Box, ...] | None:
    """The boxes of a text that is nothing else; None for any other text, for one without a box too."""
    text = text.strip()
    return _read_marked(text) or read_json_boxes(text) or _read_corners(text)


def read_box(text: str) -> Box | None:
    """The box of a text that is a single box; None for any other text."""
    boxes = read_boxes(text)
    return boxes[0] if boxes is not None and len(boxes) == 1 else None


def read_json_boxes(text: str) -> tuple[Box, ...] | None:
    """As `read_boxes`, for JSON alone: lists of numbers, and objects with a box."""
    found = _read_json(text, BOX_KEYS, 4)
    return None if found is None else tuple((x1, y1, x2, y2) for x1, y1, x2, y2 in found)


def read_point(text: str) -> Point | None:
    """The point of a text that is a single point; None for any other text, such as a box."""
    text = text.strip()
    if match := _POINT.fullmatch(text) or _MARKED_POINT.fullmatch(text):
        return float(match[1]), float(match[2])
    points = _read_json(text, POINT_KEYS, 2)
    if points is None or len(points) != 1:
        return None
    x, y = points[0]
    return x, y


def search_box(text: str) -> Box | None:
    """The first `(x1,y1),(x2,y2)` of whole numbers anywhere in the text, as released graders search for it. Not for
    a reward."""
    return _corners(_SEARCHED_BOX.search(text))


def _read_corners(text: str) -> tuple[Box, ...] | None:
    parts = [_corners(_BOX.fullmatch(part)) for part in _BETWEEN.split(text) if part.strip()]
    boxes = tuple(box for box in parts if box is not None)
    return boxes if boxes and len(boxes) == len(parts) else None


def _corners(match: re.Match[str] | None) -> Box | None:
    if match is None:
        return None
    x1, y1, x2, y2 = map(float, match.groups()[-4:])
    return x1, y1, x2, y2


def _read_marked(text: str) -> tuple[Box, ...] | None:
    boxes: list[Box] = []
    place = 0
    while place < len(text):
        match = _MARKED.match(text, place)
        box = _corners(match)
        if match is None or box is None:
            return None
        boxes.append(box)
        place = match.end()
    return tuple(boxes) or None


def _read_json(text: str, keys: Sequence[str], count: int) -> tuple[tuple[float, ...], ...] | None:
    """The lists of `count` numbers of a JSON text, or of one on each line."""
    value = read_json(text)
    one = _numbers(value, keys, count)
    if one is not None:
        return (one,)
    if not isinstance(value, list):
        return None
    found = [_numbers(part, keys, count) for part in value]
    values = tuple(v for v in found if v is not None)
    return values if values and len(values) == len(found) else None


def _numbers(value: Any, keys: Sequence[str], count: int) -> tuple[float, ...] | None:
    """The numbers of a list of them, or of an object that has one such list under one of the keys."""
    if isinstance(value, dict):
        lists = [value[key] for key in keys if key in value]
        value = lists[0] if len(lists) == 1 else None
    if not isinstance(value, list) or len(value) != count:
        return None
    if not all(type(v) in (int, float) and abs(v) < LARGEST for v in value):
        return None
    return tuple(map(float, value))
