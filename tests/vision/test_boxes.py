"""Overlap of boxes, and conversion between pixels and thousandths."""

from __future__ import annotations

import importlib
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlrft.vision.boxes import (
    Box,
    giou,
    iou,
    is_proper,
    rescale,
    resized_size,
    round_box,
    to_thousandths,
)

WHOLE: Box = (0, 0, 1000, 1000)
THOUSANDTHS = (1000, 1000)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (WHOLE, WHOLE, 1.0),
        ((0, 0, 500, 1000), WHOLE, 0.5),
        ((0, 0, 200, 200), (100, 100, 300, 300), 1 / 7),
        ((0, 0, 100, 100), (100, 0, 200, 100), 0.0),
        ((0, 0, 100, 100), (500, 500, 600, 600), 0.0),
        ((10.5, 10.5, 20.5, 20.5), (10.5, 10.5, 20.5, 15.5), 0.5),
    ],
)
def test_overlap(one: Box, other: Box, overlap: float) -> None:
    assert iou(one, other) == pytest.approx(overlap, abs=1e-12)
    assert iou(other, one) == pytest.approx(overlap, abs=1e-12)


@pytest.mark.parametrize(
    "bad",
    [
        (500, 0, 0, 1000),  # inverted
        (0, 1000, 1000, 0),
        (1000, 1000, 0, 0),  # both ways: the area is positive
        (0, 0, 0, 1000),  # no area
        (0, 0, 1000, 0),
        (-1, 0, 1000, 1000),  # out of range
        (0, 0, 1001, 1000),
        (0, 0, 1000, 1e300),
        (math.nan, 0, 1000, 1000),
        (0, 0, math.inf, 1000),
        (-math.inf, 0, math.inf, 1000),
    ],
)
def test_a_box_that_is_not_proper_overlaps_nothing(bad: Box) -> None:
    assert not is_proper(bad)
    assert iou(bad, WHOLE) == iou(WHOLE, bad) == iou(bad, bad) == 0.0


def test_the_frame_may_be_the_image() -> None:
    assert iou((0, 0, 1200, 800), (0, 0, 1200, 800)) == 0.0
    assert iou((0, 0, 1200, 800), (0, 0, 1200, 800), 1200, 800) == 1.0


def test_thousandths_of_width_and_height() -> None:
    assert to_thousandths((56, 0, 112, 56), 112, 224) == (500, 0, 1000, 250)
    assert rescale((500, 0, 1000, 250), THOUSANDTHS, (112, 224)) == (56, 0, 112, 56)


@given(st.integers(1, 1000), st.integers(1, 1000), st.data())
def test_pixels_survive_a_round_trip(width: int, height: int, data: st.DataObject) -> None:
    xs, ys = st.integers(0, width), st.integers(0, height)
    box = data.draw(st.tuples(xs, ys, xs, ys))
    thousandths = to_thousandths(box, width, height)
    assert round_box(rescale(thousandths, THOUSANDTHS, (width, height))) == box


def test_giou_by_hand() -> None:
    assert giou(WHOLE, WHOLE) == 1.0
    assert giou((0, 0, 1, 1), (1, 0, 2, 1)) == 0.0  # side by side: nothing shared, no gap
    assert giou((0, 0, 1, 1), (3, 0, 4, 1)) == -0.5  # half of the hull is gap


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl"])
def test_the_resized_size_is_that_of_the_image_processor(family: str) -> None:
    """200 sizes; boxes in the frame of the real resizing are restored to the pixel."""
    module = importlib.import_module("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
    rng = random.Random(family)
    for _ in range(200):
        width, height = rng.randint(30, 3000), rng.randint(30, 3000)
        most = rng.choice([401408, 1003520, 12845056])
        frame = resized_size(width, height, 3136, most)
        assert frame[::-1] == module.smart_resize(height, width, 28, 3136, most)
        x1, x2 = sorted(rng.sample(range(width + 1), 2))
        y1, y2 = sorted(rng.sample(range(height + 1), 2))
        there = rescale((x1, y1, x2, y2), (width, height), frame)
        assert round_box(rescale(there, frame, (width, height))) == (x1, y1, x2, y2)
