"""Masks of boxes, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vlrft.vision.boxes import Box
from vlrft.vision.masks import IGNORED, bounding_box, fill_box, overlap

SIZE = (100, 50)


def test_the_bounding_box_is_the_box_of_a_filled_one() -> None:
    assert bounding_box(fill_box((10, 10, 30, 30), SIZE)) == (10, 10, 30, 30)
    assert bounding_box(np.zeros((5, 5), dtype=np.uint8)) is None
    assert bounding_box(np.full((5, 5), IGNORED, dtype=np.uint8)) is None


@pytest.mark.parametrize(
    ("box", "pixels"),
    [
        ((10, 10, 30, 30), 400),
        ((0, 0, 100, 50), 5000),
        ((0.5, 0, 10.5, 1), 10),  # the centres 0.5 … 9.5
        ((0.51, 0, 10.49, 1), 9),  # 1.5 … 9.5
        ((10.6, 10, 11.4, 20), 0),  # between two centres
        ((10.4, 10, 10.6, 11), 1),
        ((-5, -5, 1, 1), 1),
        ((99, 49, 200, 200), 1),
    ],
)
def test_a_filled_box_is_the_pixels_whose_centres_it_contains(box: Box, pixels: int) -> None:
    mask = fill_box(box, SIZE)
    assert mask.shape == (50, 100)
    assert mask.sum() == pixels


def test_overlap_by_hand() -> None:
    mask = fill_box((10, 10, 30, 30), SIZE)
    assert overlap(fill_box((10, 10, 30, 30), SIZE), mask) == (400, 400)
    assert overlap(fill_box((10, 10, 20, 30), SIZE), mask) == (200, 400)
    assert overlap(fill_box((0, 0, 100, 50), SIZE), mask) == (400, 5000)
    assert overlap(fill_box((50, 0, 60, 10), SIZE), mask) == (0, 500)
    assert overlap(None, mask) == (0, 400)


def test_ignored_pixels_count_for_neither_side() -> None:
    mask = fill_box((10, 10, 30, 30), SIZE)
    mask[12:16, 12:16] = IGNORED
    assert overlap(fill_box((10, 10, 30, 30), SIZE), mask) == (384, 384)
    assert overlap(None, mask) == (0, 384)
