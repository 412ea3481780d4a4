"""Scenes of things on a floor, nearer ones larger and lower: their places, and their picture."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

WIDTH, HEIGHT, FINE = 140, 112, 3  # pixels; drawn larger by this factor, for smooth edges
HORIZON = 0.36  # share of the height
NEAR, FAR = 2.0, 6.0  # metres from the camera
COLOURS = {
    "red": "#d62828",
    "green": "#2b9348",
    "blue": "#1d4ed8",
    "yellow": "#ffd60a",
    "purple": "#8e44ad",
    "white": "#fafafa",
}
SHAPES = ("ball", "box", "cone")
BOXES = ("red", "blue", "green")  # CV-Bench's, in the order in which a question names things
Place = tuple[float, float]  # metres to the right of the camera, and away from it


@dataclass(frozen=True, kw_only=True)
class Thing:
    """A thing on the floor."""

    colour: str
    shape: str
    place: Place

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape}"

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Its left, upper, right and lower edge, in shares of the picture's width and height."""
        x, z = self.place
        across, tall = 0.42 / z, 0.42 / z * WIDTH / HEIGHT
        middle = 0.5 + 0.75 * x / z
        foot = HORIZON + (1 - HORIZON) * NEAR * 0.86 / z
        return middle - across / 2, foot - tall, middle + across / 2, foot


def place_things(rng: random.Random, names: Sequence[tuple[str, str]]) -> list[Thing]:
    """Things at places that leave each of them in sight and in the picture."""
    while True:
        things: list[Thing] = []
        for colour, shape in names:
            for _ in range(40):
                z = rng.uniform(NEAR, FAR)
                place = (rng.uniform(-0.55, 0.55) * z, z)
                thing = Thing(colour=colour, shape=shape, place=place)
                if all(_is_apart(thing, other) for other in things):
                    things.append(thing)
                    break
        if len(things) == len(names):
            return things


def _is_apart(thing: Thing, other: Thing) -> bool:
    a, b, gap = thing.box, other.box, 0.02
    within = a[0] >= 0.02 and a[2] <= 0.98
    return within and (
        a[2] + gap < b[0] or b[2] + gap < a[0] or a[3] + gap < b[1] or b[3] + gap < a[1]
    )


def draw_names(rng: random.Random, count: int) -> list[tuple[str, str]]:
    """Colours and shapes of different things."""
    return rng.sample([(colour, shape) for colour in COLOURS for shape in SHAPES], count)


def draw_scene(things: Sequence[Thing], marked: Sequence[Thing], rng: random.Random) -> Image:
    """The picture; `marked` things have CV-Bench's boxes around them."""
    from PIL import Image, ImageDraw

    size = (WIDTH * FINE, HEIGHT * FINE)
    wall, floor = rng.randint(185, 225), rng.randint(120, 160)
    image = Image.new("RGB", size, (wall, wall, wall + 10))
    pen = ImageDraw.Draw(image)
    top = HORIZON * size[1]
    pen.rectangle((0, top, *size), (floor, floor - 15, floor - 35))
    for column in range(-8, 9):  # boards of the floor, which meet far away
        ends = (size[0] * (0.5 + column * 0.035), top, size[0] * (0.5 + column * 0.22), size[1])
        pen.line(ends, (floor - 18, floor - 33, floor - 53), FINE)
    for thing in sorted(things, key=lambda t: -t.place[1]):
        box = tuple(v * s for v, s in zip(thing.box, (*size, *size), strict=True))
        _draw_thing(pen, thing, box)
    for thing, colour in zip(marked, BOXES, strict=False):
        left, upper, right, lower = (v * s for v, s in zip(thing.box, (*size, *size), strict=True))
        edge = 2 * FINE
        place = (left - edge, upper - edge, right + edge, lower + edge)
        pen.rectangle(place, outline=colour, width=int(1.5 * FINE))
    return image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)


def _draw_thing(pen: ImageDraw, thing: Thing, box: Sequence[float]) -> None:
    left, upper, right, lower = box
    colour, width, height = COLOURS[thing.colour], right - left, lower - upper
    shadow = (
        left - width * 0.05,
        lower - height * 0.14,
        right + width * 0.2,
        lower + height * 0.08,
    )
    pen.ellipse(shadow, "#57503f")
    if thing.shape == "ball":
        pen.ellipse((left, upper, right, lower), colour, "black", FINE)
    elif thing.shape == "box":
        depth = width * 0.25
        front = (left, upper + depth, right - depth, lower)
        lid = [
            (front[0], front[1]),
            (left + depth, upper),
            (right, upper),
            (right, lower - depth),
            (front[2], lower),
            (front[2], front[1]),
        ]
        pen.polygon(lid, colour, "black", FINE)
        pen.rectangle(front, colour, "black", FINE)
        pen.line((front[2], front[1], right, upper), "black", FINE)
    else:
        middle = (left + right) / 2
        pen.polygon([(middle, upper), (right, lower), (left, lower)], colour, "black", FINE)
