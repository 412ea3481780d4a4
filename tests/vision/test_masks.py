"""Masks of polygons and boxes, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vlrft.vision.boxes import Box
from vlrft.vision.masks import IGNORED, bounds, overlap, paint, rectangle

SIZE = (100, 50)
SQUARE = [[10, 10], [29, 10], [29, 29], [10, 29]]  # the pixels 10 … 29: edges are drawn
SMALL = [[12, 12], [15, 12], [15, 15], [12, 15]]
FAR = [[80, 40], [89, 40], [89, 49], [80, 49]]


def shape(label: str, points: list[list[int]]) -> dict[str, object]:
    return {"label": label, "points": points}


@pytest.mark.parametrize("turned", [False, True])
def test_polygons_are_painted_small_ones_on_top(turned: bool) -> None:
    shapes = [shape("Ignore", SMALL), shape("target", SQUARE)]
    mask = paint(shapes[::-1] if turned else shapes, SIZE)
    assert mask.shape == (50, 100)
    assert ((mask == 1).sum(), (mask == IGNORED).sum()) == (400 - 16, 16)
    over = paint([shape("target", SMALL), shape("ignored", SQUARE)], SIZE)
    assert ((over == 1).sum(), (over == IGNORED).sum()) == (16, 400 - 16)


def test_flags_and_what_is_no_polygon_are_not_painted() -> None:
    shapes = [shape("FLAG", SQUARE), shape("target", SMALL[:2]), shape("target", [])]
    assert not paint(shapes, SIZE).any()
    assert paint([*shapes, shape("a flag", FAR)], SIZE).sum() == 100  # only the very label


def test_what_lies_outside_of_the_picture_is_cut_off() -> None:
    mask = paint([shape("target", [[90, 40], [120, 40], [120, 60], [90, 60]])], SIZE)
    assert mask.sum() == 100
    assert bounds(mask) == (90, 40, 100, 50)


def test_the_box_around_a_target() -> None:
    assert bounds(paint([shape("target", SQUARE)], SIZE)) == (10, 10, 30, 30)
    parts = [shape("target", SQUARE), shape("target", FAR)]
    assert bounds(paint(parts, SIZE)) == (10, 10, 90, 50)
    assert bounds(paint([shape("ignore", SQUARE)], SIZE)) is None
    assert bounds(np.zeros((5, 5), dtype=np.uint8)) is None


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
def test_a_rectangle_is_the_pixels_whose_centres_it_holds(box: Box, pixels: int) -> None:
    found = rectangle(box, SIZE)
    assert found.shape == (50, 100)
    assert found.sum() == pixels


def test_overlap_by_hand() -> None:
    mask = paint([shape("target", SQUARE)], SIZE)
    assert overlap(rectangle((10, 10, 30, 30), SIZE), mask) == (400, 400)
    assert overlap(rectangle((10, 10, 20, 30), SIZE), mask) == (200, 400)
    assert overlap(rectangle((0, 0, 100, 50), SIZE), mask) == (400, 5000)
    assert overlap(rectangle((50, 0, 60, 10), SIZE), mask) == (0, 500)
    assert overlap(None, mask) == (0, 400)


def test_ignored_pixels_count_for_neither_side() -> None:
    mask = paint([shape("target", SQUARE), shape("ignore", SMALL)], SIZE)
    assert overlap(rectangle((10, 10, 30, 30), SIZE), mask) == (384, 384)
    assert overlap(rectangle((12, 12, 16, 16), SIZE), mask) == (0, 384)
    assert overlap(None, mask) == (0, 384)
