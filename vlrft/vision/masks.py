"""Masks of polygons and boxes, and their overlap. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from vlrft.vision.boxes import Box

IGNORED = 255  # pixels that count neither way
Mask = NDArray[np.uint8]  # [height, width]: 0, 1 or IGNORED


def paint(shapes: Sequence[Mapping[str, Any]], size: tuple[int, int]) -> Mask:
    """ReasonSeg's polygons (`label`, `points`), the larger ones first, so that a smaller one lies on top; those labelled
    `flag` are skipped, those labelled `ignore` are IGNORED, any other is 1: LISA's own masks, which OpenCV draws,
    but for half a percent of the pixels, on slanted edges."""
    drawn: list[tuple[int, Mask, int]] = []
    for shape in shapes:
        label = str(shape["label"]).lower()
        points = [(float(x), float(y)) for x, y in shape["points"]]
        if label == "flag" or len(points) < 3:
            continue
        canvas = Image.new("L", size)
        ImageDraw.Draw(canvas).polygon(points, fill=1, outline=1)
        mask = np.asarray(canvas, dtype=np.uint8)
        drawn.append((int(mask.sum()), mask, IGNORED if "ignore" in label else 1))
    out = np.zeros((size[1], size[0]), dtype=np.uint8)
    for _, mask, value in sorted(drawn, key=lambda item: -item[0]):
        out[mask == 1] = value
    return out


def rectangle(box: Box, size: tuple[int, int]) -> Mask:
    """The pixels whose centres lie in the box."""
    out = np.zeros((size[1], size[0]), dtype=np.uint8)
    left, top, right, bottom = (max(0, int(np.ceil(v - 0.5))) for v in box)
    out[top:bottom, left:right] = 1
    return out


def bounds(mask: Mask) -> tuple[int, int, int, int] | None:
    """The smallest box around the mask, in pixels; None for an empty one."""
    rows, columns = np.nonzero(mask == 1)
    if not len(rows):
        return None
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def overlap(said: Mask | None, gold: Mask) -> tuple[int, int]:
    """Pixels of the intersection and of the union; ignored ones count in neither."""
    right = gold == 1
    if said is None:
        return 0, int(right.sum())
    own = (said == 1) & (gold != IGNORED)
    return int((own & right).sum()), int((own | right).sum())
