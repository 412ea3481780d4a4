"""Synthetic images: each class is a glyph, a coloured shape with a mark, on backgrounds that training and test do not share.

The training rows are a table as the hub's ViRFT_CLS_* have it; the test images are listed as by CoOp, those of aircraft as by
their authors.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vlrft.data import Draw, Synthetic, encode_picture, read_prompt, write_bytes, write_hub_table

from .class_list import official_classes
from .options import KINDS, Options

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

SIDE, FINE = 84, 4  # pixels; drawn larger by this factor, for smooth edges
PER_CLASS = 4  # images of a class, unless options.k says it
COLOURS = ("#d62828", "#f77f00", "#ffd60a", "#2b9348", "#00b4d8", "#1d3fbb", "#9d4edd", "#ffffff")
MARKS = 4
COLUMNS = {"image": "image", "problem": "string", "solution": "string"}
COOP = {"flowers102": "OxfordFlowers", "pets37": "OxfordPets", "cars196": "StanfordCars"}
Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A picture and its class."""

    picture: Image
    label: int  # from 0
    name: str


def _make(background: str, draw: Draw) -> Labelled:
    """The image of a class: of the first ones in the dataset's list, as many as the rows suffice for."""
    options: Options = draw.options
    names = official_classes(options.dataset).names
    classes = max(1, min(len(names), draw.count // (options.k or PER_CLASS)))
    label = draw.index % classes
    return Labelled(picture=_picture(label, background, draw.rng), label=label, name=names[label])


def _picture(label: int, background: str, rng: random.Random) -> Image:
    from PIL import Image, ImageDraw

    side = SIDE * FINE
    image = Image.new("RGB", (side, side), _grey(rng))
    pen = ImageDraw.Draw(image)
    BACKGROUNDS[background](pen, rng, side)
    radius = side * rng.uniform(0.26, 0.36)
    x, y = (side / 2 + side * rng.uniform(-0.1, 0.1) for _ in "xy")
    _glyph(pen, label, (x, y), radius, math.radians(rng.uniform(-12, 12)))
    return image.resize((SIDE, SIDE), Image.Resampling.LANCZOS)


def _glyph(pen: ImageDraw, label: int, centre: Point, radius: float, turn: float) -> None:
    """The shape, the colour and the mark of a class; 256 of them differ, and the first 64 in shape or colour."""
    shape = SHAPES[label % len(SHAPES)]
    colour = COLOURS[(label + label // len(SHAPES)) % len(COLOURS)]
    mark = label // (len(SHAPES) * len(COLOURS)) % MARKS

    def place(points: Sequence[Point]) -> list[Point]:
        cos, sin = math.cos(turn) * radius, math.sin(turn) * radius
        return [(centre[0] + x * cos - y * sin, centre[1] + x * sin + y * cos) for x, y in points]

    pen.polygon(place(shape), fill=colour, outline="black", width=FINE)
    bar = [(-0.45, -0.1), (0.45, -0.1), (0.45, 0.1), (-0.45, 0.1)]
    if mark == 1:
        pen.polygon(place(_regular(24, 0.25)), fill="black")
    if mark >= 2:
        pen.polygon(place(bar), fill="black")
    if mark == 3:
        pen.polygon(place([(y, x) for x, y in bar]), fill="black")


def _regular(corners: int, radius: float = 1.0, start: float = -90) -> list[Point]:
    angles = [math.radians(start + 360 * k / corners) for k in range(corners)]
    return [(radius * math.cos(a), radius * math.sin(a)) for a in angles]


def _star() -> list[Point]:
    outer, inner = _regular(5), _regular(5, 0.42, -54)
    return [point for pair in zip(outer, inner, strict=True) for point in pair]


SHAPES: Sequence[Sequence[Point]] = (
    _regular(32),
    _regular(4, start=-45),
    _regular(3),
    _star(),
    [
        *((-0.3, -0.95), (0.3, -0.95), (0.3, -0.3), (0.95, -0.3), (0.95, 0.3), (0.3, 0.3)),
        *((0.3, 0.95), (-0.3, 0.95), (-0.3, 0.3), (-0.95, 0.3), (-0.95, -0.3), (-0.3, -0.3)),
    ],
    [(0, -1), (0.55, 0), (0, 1), (-0.55, 0)],
    [(-0.5, -0.85), (0.5, -0.85), (1, 0), (0.5, 0.85), (-0.5, 0.85), (-1, 0)],
    [(-1, -0.45), (0, -0.45), (0, -0.9), (1, 0), (0, 0.9), (0, 0.45), (-1, 0.45)],
)


def _grey(rng: random.Random) -> str:
    level = rng.randint(120, 175)
    return f"#{level:02x}{level:02x}{level:02x}"


def _plain(pen: ImageDraw, rng: random.Random, side: int) -> None:
    """Nothing but the colour that is there."""


def _stripes(horizontal: bool, pen: ImageDraw, rng: random.Random, side: int) -> None:
    colour, width = _grey(rng), side // rng.randint(6, 10)
    for start in range(0, side, 2 * width):
        ends = (start, start + width)
        pen.rectangle(
            (0, ends[0], side, ends[1]) if horizontal else (ends[0], 0, ends[1], side), colour
        )


def _ground(pen: ImageDraw, rng: random.Random, side: int) -> None:
    pen.rectangle((0, side * rng.uniform(0.5, 0.8), side, side), _grey(rng))


def _checks(pen: ImageDraw, rng: random.Random, side: int) -> None:
    colour, width = _grey(rng), side // rng.randint(4, 6)
    for row, top in enumerate(range(0, side, width)):
        for left in range(width * (row % 2), side, 2 * width):
            pen.rectangle((left, top, left + width, top + width), colour)


def _dots(pen: ImageDraw, rng: random.Random, side: int) -> None:
    colour, width = _grey(rng), side // rng.randint(6, 9)
    for top in range(0, side, width):
        for left in range(0, side, width):
            pen.ellipse((left, top, left + width / 2, top + width / 2), colour)


BACKGROUNDS: Mapping[str, Callable[[ImageDraw, random.Random, int], None]] = {
    "plain": _plain,
    "ground": _ground,
    "rows": partial(_stripes, True),
    "columns": partial(_stripes, False),
    "checks": _checks,
    "dots": _dots,
}
TEMPLATES: Mapping[str, Sequence[str]] = {
    "train": ("plain", "rows", "columns", "ground"),
    "test": ("checks", "dots"),
}


def _write(rows: Sequence[Labelled], split: str, options: Options, folder: Path) -> None:
    if split == "train":
        thing, what = KINDS[options.dataset]
        problem = read_prompt(__file__, "released").format(thing=thing, what=what)
        cells = [
            {
                "image": row.picture.convert("RGBA"),
                "problem": problem,
                "solution": f"<answer>{row.name}</answer>",
            }
            for row in rows
        ]
        write_hub_table(folder / "data/train-00000-of-00001.parquet", COLUMNS, cells)
        return
    for number, row in enumerate(rows):
        write_bytes(folder / f"images/{number:07}.jpg", encode_picture(row.picture, "JPEG"))
    if options.dataset in COOP:
        listed = [[f"{number:07}.jpg", row.label, row.name] for number, row in enumerate(rows)]
        tree = {"train": [], "val": [], "test": listed}
        content = json.dumps(tree, ensure_ascii=False)
        name = f"split_zhou_{COOP[options.dataset]}.json"
    else:
        content = "".join(f"{number:07} {row.name}\n" for number, row in enumerate(rows))
        name = "images_variant_test.txt"
    write_bytes(folder / name, content.encode())


SYNTHETIC = Synthetic(
    templates={
        split: {name: partial(_make, name) for name in names} for split, names in TEMPLATES.items()
    },
    write=_write,
)
