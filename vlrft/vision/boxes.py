"""Boxes (x1, y1, x2, y2): conventions, conversions and overlap.

Three conventions: pixels of the image; thousandths of its width and height, which Qwen2-VL writes and in which packs state
their gold answers; and pixels of the image as the image processor resizes it, to `resized_size`, which Qwen2.5-VL writes. A
box is *proper* when it is finite, lies within its frame and has an area; any other box overlaps nothing.
"""

from __future__ import annotations

import math

from vlrft.vision.limits import MAX_RATIO

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


def is_box(answer: object) -> bool:
    """Whether a gold answer is four numbers."""
    return (
        isinstance(answer, list | tuple)
        and len(answer) == 4
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in answer)
    )


def is_boxes(answer: object) -> bool:
    """Whether a gold answer is a box, or a list of boxes."""
    if is_box(answer):
        return True
    return isinstance(answer, list | tuple) and bool(answer) and all(map(is_box, answer))


def giou(one: Box, other: Box) -> float:
    """Generalised IoU in (-1, 1] of two proper boxes: IoU minus the share of their hull that neither
    box covers (Rezatofighi et al. 2019, arXiv 1902.09630)."""
    shared = max(min(one[2], other[2]) - max(one[0], other[0]), 0.0) * max(
        min(one[3], other[3]) - max(one[1], other[1]), 0.0
    )
    union = _area(one) + _area(other) - shared
    hull = (max(one[2], other[2]) - min(one[0], other[0])) * (
        max(one[3], other[3]) - min(one[1], other[1])
    )
    return shared / union - (hull - union) / hull


def resized_size(
    width: int,
    height: int,
    min_pixels: int,
    max_pixels: float,
    factor: int = 28,
    enlarge_sides: bool = False,
) -> tuple[int, int]:
    """The width and height of an image after resizing as Qwen2-VL's image processor does (transformers' `smart_resize`):
    multiples of `factor`, an area within the bounds, the aspect ratio kept as nearly as they allow.

    `enlarge_sides`: as GLM-4.1V's does, which first enlarges an image with a side below `factor` until it has none. Raises
    ValueError for an image more than MAX_RATIO times as long as it is wide.
    """
    if enlarge_sides and min(width, height) < factor:
        scale = max(factor / height, factor / width)
        width, height = int(width * scale), int(height * scale)
    if max(width, height) > MAX_RATIO * min(width, height):
        raise ValueError(f"an image of {width} x {height} pixels is too long for its width")
    w, h = round(width / factor) * factor, round(height / factor) * factor
    if w * h > max_pixels:
        scale = math.sqrt(width * height / max_pixels)
        w = max(factor, math.floor(width / scale / factor) * factor)
        h = max(factor, math.floor(height / scale / factor) * factor)
    elif w * h < min_pixels:
        scale = math.sqrt(min_pixels / (width * height))
        w, h = (math.ceil(side * scale / factor) * factor for side in (width, height))
    return w, h


def rescale(box: Box, frame: tuple[float, float], other: tuple[float, float]) -> Box:
    """A box of one frame (width, height) in another frame; thousandths are a frame of 1000 by 1000.

    `round_box` of it gives back the pixels that `to_thousandths` was given, on images up to 1000 pixels a side.
    """
    across, down = other[0] / frame[0], other[1] / frame[1]
    return box[0] * across, box[1] * down, box[2] * across, box[3] * down


def round_box(box: Box) -> tuple[int, int, int, int]:
    """The box in whole numbers."""
    return round(box[0]), round(box[1]), round(box[2]), round(box[3])


def to_thousandths(box: Box, width: int, height: int) -> tuple[int, int, int, int]:
    """Pixels -> whole thousandths of an image of `width` by `height` pixels."""
    x1, y1, x2, y2 = box
    return (
        round(x1 * THOUSAND / width),
        round(y1 * THOUSAND / height),
        round(x2 * THOUSAND / width),
        round(y2 * THOUSAND / height),
    )


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
