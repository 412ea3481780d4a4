"""Boxes (x1, y1, x2, y2): conventions, conversions and overlap.

Two conventions: pixels of the image, and thousandths of its width and height (Qwen2-VL), in which
packs state their gold answers. A box is *proper* when it is finite, lies within its frame and has
an area; any other overlaps nothing.
"""

from __future__ import annotations

import math

Box = tuple[float, float, float, float]

THOUSAND = 1000.0


def is_proper(box: Box, width: float = THOUSAND, height: float = THOUSAND) -> bool:
    """Whether the box is finite, inside a frame of `width` by `height`, and neither inverted nor
    without area."""
    x1, y1, x2, y2 = box
    return all(map(math.isfinite, box)) and 0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height


def iou(one: Box, other: Box, width: float = THOUSAND, height: float = THOUSAND) -> float:
    """Intersection over union in [0, 1]; 0 when either box is not proper in the frame."""
    if not (is_proper(one, width, height) and is_proper(other, width, height)):
        return 0.0
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(across, 0.0) * max(down, 0.0)
    return shared / (_area(one) + _area(other) - shared)


def to_thousandths(box: Box, width: int, height: int) -> tuple[int, int, int, int]:
    """Pixels -> whole thousandths of an image of `width` by `height` pixels."""
    x1, y1, x2, y2 = box
    return (
        round(x1 * THOUSAND / width),
        round(y1 * THOUSAND / height),
        round(x2 * THOUSAND / width),
        round(y2 * THOUSAND / height),
    )


def to_pixels(box: Box, width: int, height: int) -> tuple[int, int, int, int]:
    """Thousandths -> the nearest whole pixels; exact after `to_thousandths` on images up to 1000
    pixels a side."""
    x1, y1, x2, y2 = box
    return (
        round(x1 * width / THOUSAND),
        round(y1 * height / THOUSAND),
        round(x2 * width / THOUSAND),
        round(y2 * height / THOUSAND),
    )


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
