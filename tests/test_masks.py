from __future__ import annotations

import numpy as np

from vlrft.masks import IGNORED, area, box_around, overlap, paint

SQUARE = [[10, 10], [29, 10], [29, 29], [10, 29]]  # pixels 10 … 29, edges drawn
SMALL = [[12, 12], [15, 12], [15, 15], [12, 15]]


def test_polygons_are_painted_small_ones_on_top() -> None:
    mask = paint((100, 50), [(IGNORED, SMALL), (1, SQUARE)])
    assert mask.shape == (50, 100)
    assert area((100, 50), SQUARE) == 400
    assert ((mask == 1).sum(), (mask == IGNORED).sum()) == (400 - 16, 16)
    assert np.array_equal(mask, paint((100, 50), [(1, SQUARE), (IGNORED, SMALL)]))


def test_the_box_around_a_target() -> None:
    assert box_around(paint((100, 50), [(1, SQUARE)])) == (10, 10, 30, 30)
    assert box_around(paint((100, 50), [(IGNORED, SQUARE)])) is None


def test_overlap_of_a_box_by_hand() -> None:
    mask = paint((100, 50), [(1, SQUARE)])
    assert overlap(mask, (100, 200, 300, 600)) == (400, 400)
    assert overlap(mask, (100, 200, 200, 600)) == (200, 400)
    assert overlap(mask, (0, 0, 1000, 1000)) == (400, 5000)
    assert overlap(mask, None) == (0, 400)
    assert overlap(mask, (300, 600, 100, 200)) == (0, 400)  # inverted
    assert overlap(mask, (0, 0, 2000, 1000)) == (0, 400)  # out of range


def test_ignored_pixels_count_for_neither_side() -> None:
    mask = paint((100, 50), [(1, SQUARE), (IGNORED, SMALL)])
    assert overlap(mask, (100, 200, 300, 600)) == (384, 384)
    assert overlap(mask, (120, 240, 160, 320)) == (0, 384)
