"""Scenes of things on a floor, in three columns and two rows: the far row is higher and its things are smaller."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

CELL = 56  # pixels; a place's width and height
COLUMNS, ROWS = ("left", "middle", "right"), ("far", "near")
WIDTH, HEIGHT, FINE = len(COLUMNS) * CELL, len(ROWS) * CELL, 3  # drawn larger, for smooth edges
HORIZON = 20  # pixels from the upper edge
WALL, FLOOR, BOARD = "#78757c", "#7b7060", "#6d6255"
"""Near the grey that the image processor makes 0: in front of white or black, a policy with random weights does not see the things."""
SIDES = {"far": 28, "near": 42}  # pixels of a thing
METRES = 2.0  # from one column or row to the next
SHIFT = 4  # pixels, at most, from the middle of a place
BOXES = ("red", "blue", "green")  # CV-Bench's, in the order in which a question names things

Corners = tuple[float, float, float, float]
Place = tuple[int, int]  # column and row
PLACES: Sequence[Place] = [(c, r) for c in range(len(COLUMNS)) for r in range(len(ROWS))]


@dataclass(frozen=True, kw_only=True)
class Thing:
    """A thing on the floor. `shift`: pixels to the right."""

    name: str
    place: Place
    shift: float

    @property
    def is_near(self) -> bool:
        return ROWS[self.place[1]] == "near"

    @property
    def column(self) -> int:
        return self.place[0]

    @property
    def box(self) -> Corners:
        """Its left, upper, right and lower edge, in pixels."""
        column, row = self.place
        side, middle, foot = SIDES[ROWS[row]], (column + 0.5) * CELL + self.shift, (row + 1) * CELL
        return middle - side / 2, foot - 4 - side, middle + side / 2, foot - 4

    def metres(self, other: Thing) -> float:
        """Between the middles of the two places."""
        return METRES * math.dist(self.place, other.place)


def place_things(rng: random.Random, names: Sequence[str]) -> list[Thing]:
    """Things at different places."""
    places = rng.sample(PLACES, len(names))
    return [
        Thing(name=name, place=place, shift=rng.uniform(-SHIFT, SHIFT))
        for name, place in zip(names, places, strict=True)
    ]


def draw_scene(things: Sequence[Thing], marked: Sequence[Thing]) -> Image:
    """The picture; `marked` things have CV-Bench's boxes around them."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (WIDTH * FINE, HEIGHT * FINE), WALL)
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, HORIZON * FINE, WIDTH * FINE, HEIGHT * FINE), FLOOR)
    for board in range(-6, 7):  # boards of the floor, which meet far away
        above, below = (WIDTH * (0.5 + board * share) for share in (0.06, 0.22))
        pen.line((above * FINE, HORIZON * FINE, below * FINE, HEIGHT * FINE), BOARD, FINE)
    for thing in things:
        _draw(pen, thing.name, [v * FINE for v in thing.box])
    for thing, colour in zip(marked, BOXES, strict=False):
        left, upper, right, lower = thing.box
        frame = [v * FINE for v in (left - 3, upper - 3, right + 3, lower + 3)]
        pen.rectangle(frame, outline=colour, width=FINE * 3)
    return image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)


def _draw(pen: ImageDraw, name: str, box: Sequence[float]) -> None:
    colour, outlines = THINGS[name]
    left, upper, right, lower = box

    def scaled(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(left + x * (right - left), upper + y * (lower - upper)) for x, y in points]

    pen.ellipse(
        (left, lower - (lower - upper) * 0.12, right, lower + (lower - upper) * 0.06), BOARD
    )
    for points in outlines():
        pen.polygon(scaled(points), colour, "black", FINE)


Outline = Sequence[tuple[float, float]]


def _ellipse(x: float, y: float, across: float, down: float) -> Outline:
    turns = [math.tau * k / 24 for k in range(24)]
    return [(x + across * math.cos(t), y + down * math.sin(t)) for t in turns]


THINGS: Mapping[str, tuple[str, Callable[[], Sequence[Outline]]]] = {
    "ball": ("#e02020", lambda: [_ellipse(0.5, 0.5, 0.5, 0.5)]),
    "box": ("#25b34b", lambda: [
        [(0, 0.25), (0.25, 0), (1, 0), (1, 0.75), (0.75, 1), (0, 1)], [(0, 0.25), (0.75, 0.25), (0.75, 1), (0, 1)],
    ]),
    "cone": ("#ffd60a", lambda: [[(0.5, 0), (1, 1), (0, 1)]]),
    "drum": ("#2563eb", lambda: [
        [(0.08, 0.15), (0.92, 0.15), (0.92, 0.88), (0.5, 1), (0.08, 0.88)], _ellipse(0.5, 0.15, 0.42, 0.15),
    ]),
    "star": ("#fafafa", lambda: [[
        (0.5 + r * math.sin(math.tau * k / 10), 0.52 - r * math.cos(math.tau * k / 10))
        for k, r in enumerate([0.52, 0.22] * 5)
    ]]),
    "vase": ("#a21caf", lambda: [[(0.3, 0), (0.7, 0), (0.62, 0.3), (0.9, 0.65), (0.7, 1), (0.3, 1), (0.1, 0.65), (0.38, 0.3)]]),
}  # fmt: skip
"""Name -> colour and outlines in a square from (0, 0) at the upper left to (1, 1)."""
