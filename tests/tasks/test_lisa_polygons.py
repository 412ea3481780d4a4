"""Masks of ReasonSeg's polygons, counted by hand."""

from __future__ import annotations

import pytest
from vlrft.tasks.lisa.polygons import paint

from vlrft.vision.masks import IGNORED, bounding_box, fill_box, overlap

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
    assert bounding_box(mask) == (90, 40, 100, 50)


def test_the_bounding_box_of_polygons() -> None:
    assert bounding_box(paint([shape("target", SQUARE)], SIZE)) == (10, 10, 30, 30)
    parts = [shape("target", SQUARE), shape("target", FAR)]
    assert bounding_box(paint(parts, SIZE)) == (10, 10, 90, 50)
    assert bounding_box(paint([shape("ignore", SQUARE)], SIZE)) is None


def test_ignored_pixels_count_for_neither_side() -> None:
    mask = paint([shape("target", SQUARE), shape("ignore", SMALL)], SIZE)
    assert overlap(fill_box((10, 10, 30, 30), SIZE), mask) == (384, 384)
    assert overlap(fill_box((12, 12, 16, 16), SIZE), mask) == (0, 384)
    assert overlap(None, mask) == (0, 384)
