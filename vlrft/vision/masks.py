"""Masks of the pixels of an image: of boxes, their bounding boxes and their overlap. No torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vlrft.vision.boxes import Box

IGNORED = 255  # pixels that count as neither right nor wrong
Mask = NDArray[np.uint8]  # [height, width]: 0, 1 or IGNORED


def fill_box(box: Box, size: tuple[int, int]) -> Mask:
    """The pixels whose centres lie in the box, in an image of `size` (width, height)."""
    mask = np.zeros((size[1], size[0]), dtype=np.uint8)
    left, top, right, bottom = (max(0, int(np.ceil(v - 0.5))) for v in box)
    mask[top:bottom, left:right] = 1
    return mask


def bounding_box(mask: Mask) -> tuple[int, int, int, int] | None:
    """The smallest box around the mask, in pixels; None for an empty one."""
    rows, columns = np.nonzero(mask == 1)
    if not len(rows):
        return None
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def overlap(predicted: Mask | None, gold: Mask) -> tuple[int, int]:
    """The number of pixels of the intersection and of the union, IGNORED ones left out; None predicts no pixel."""
    right = gold == 1
    if predicted is None:
        return 0, int(right.sum())
    counted = (predicted == 1) & (gold != IGNORED)
    return int((counted & right).sum()), int((counted | right).sum())
