"""The boxes that Visual-RFT's released evaluation reads from an output (coco_evaluation/Qwen2_VL_coco_infere.py, commit
9486633). An independent implementation."""

from __future__ import annotations

import json
import math
from typing import Any

from vlrft.vision.boxes import Box

_AS_RELEASED = (LookupError, TypeError, ValueError, ArithmeticError, RecursionError)


def read_released_detections(output: str) -> list[tuple[Box, float]]:
    """The boxes, in thousandths, with their confidences: of the list in the first answer tag, or without one in the whole
    output.

    Defects: a truncated list is completed, and one in single quotes is made JSON by replacing every quote; boxes may be out
    of range, inverted or doubled with another confidence, and confidences may be any number; a list whose third box cannot
    be read still gives the first two.
    """
    text = output.replace("[[", "[").replace("]]", "]").replace("\n", "").replace(", ...", "")
    start = text.find("<answer>")
    end = text.find("</answer>", start) if start >= 0 else -1
    text = text[start + len("<answer>") : end] if end >= 0 else text.partition("</answer>")[0]
    text = text.strip()
    if not text.endswith("]"):
        text = text.rsplit("},", 1)[0] + "}]"
    boxes: list[tuple[Box, float]] = []
    try:
        items: Any = json.loads(text.replace("'", '"'))
        if isinstance(items[0], str):
            return []
        unique: dict[Any, Any] = {}
        for item in items:
            unique.setdefault(tuple(item["Position"]), item)
        for (x1, y1, x2, y2), item in unique.items():
            confidence = item["Confidence"]
            numbers = (x1 / 1.0, y1 / 1.0, x2 / 1.0, y2 / 1.0, confidence / 1.0)
            if not all(map(math.isfinite, numbers)):
                break  # pycocotools cannot sort it
            boxes.append((numbers[:4], numbers[4]))
    except _AS_RELEASED:
        pass
    return boxes
