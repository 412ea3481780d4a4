"""Synthetic pictures of things, each in a place of its own, with an instruction that names what one of them is for.

They are stored as ReasonSeg's: a picture with a json of the target's polygon and the instruction. Training, validation and test
have the same things and ask for them in other words.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlrft.data import Draw, Synthetic, encode_picture, write_bytes

from .rows import Options

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

WIDTH, HEIGHT, FINE = 168, 140, 3  # pixels; drawn larger by this factor, for smooth edges
CELLS = [(column, row) for row in range(2) for column in range(3)]
WALLS = ("#dfe7ee", "#efe6d8", "#dcebdc", "#eadfeb")
Point = tuple[float, float]


def _arc(centre: Point, radii: Point, start: float, stop: float, steps: int = 14) -> list[Point]:
    """Points of an ellipse, in degrees clockwise from the right."""
    turns = [math.radians(start + (stop - start) * k / steps) for k in range(steps + 1)]
    return [(centre[0] + radii[0] * math.cos(t), centre[1] + radii[1] * math.sin(t)) for t in turns]


@dataclass(frozen=True, kw_only=True)
class Thing:
    """A thing in a square from (0, 0) at the upper left to (1, 1): its outline, and what is drawn on it."""

    outline: Sequence[Point]
    colours: Sequence[str]
    details: Sequence[tuple[str, Sequence[Point]]] = ()  # colour, polygon within the outline
    wordings: Mapping[str, Sequence[str]]  # split -> instructions


THINGS: Mapping[str, Thing] = {
    "umbrella": Thing(
        outline=[
            *_arc((0.5, 0.5), (0.48, 0.42), 180, 360),
            *((0.54, 0.5), (0.54, 0.92), (0.46, 0.97), (0.34, 0.92), (0.34, 0.84), (0.42, 0.88), (0.46, 0.84), (0.46, 0.5)),
        ],
        colours=("#c1121f", "#3a5bc7", "#7b2cbf"),
        details=[("#4a3b2a", [(0.46, 0.5), (0.54, 0.5), (0.54, 0.92), (0.46, 0.97), (0.34, 0.92), (0.34, 0.84), (0.42, 0.88), (0.46, 0.84)])],
        wordings={
            "train": ("what keeps a walker dry when it rains", "the thing to open above your head in bad weather"),
            "val": ("something to hold up in a shower of rain",),
            "test": ("In wet weather people carry this so that their clothes stay dry. Where is it?",),
        },
    ),
    "mug": Thing(
        outline=[
            *((0.12, 0.2), (0.7, 0.2), (0.7, 0.32)),
            *_arc((0.72, 0.52), (0.2, 0.2), -90, 90),
            *((0.7, 0.72), (0.7, 0.88), (0.12, 0.88)),
        ],
        colours=("#e76f51", "#2a9d8f", "#3a86ff"),
        details=[("#5a3a22", [(0.17, 0.25), (0.65, 0.25), (0.65, 0.33), (0.17, 0.33)]),
                 ("#8d99ae", _arc((0.73, 0.52), (0.1, 0.1), -80, 80))],
        wordings={
            "train": ("what one drinks hot coffee from", "the thing to pour tea into"),
            "val": ("something to hold a warm drink",),
            "test": ("After breakfast, what on the shelf would have held cocoa?",),
        },
    ),
    "key": Thing(
        outline=[
            *_arc((0.25, 0.5), (0.22, 0.22), 20, 340),
            *((0.97, 0.42), (0.97, 0.58), (0.9, 0.58), (0.9, 0.74), (0.8, 0.74), (0.8, 0.58), (0.72, 0.58), (0.72, 0.7), (0.62, 0.7), (0.62, 0.58)),
        ],
        colours=("#d4a017", "#6c757d", "#b08d57"),
        details=[("#f8f4e8", _arc((0.22, 0.5), (0.09, 0.09), 0, 360))],
        wordings={
            "train": ("what unlocks the front door", "the thing to turn in a lock"),
            "val": ("something to let you into a closed house",),
            "test": ("A guest stands before a locked room. Which thing is of help?",),
        },
    ),
    "candle": Thing(
        outline=[(0.36, 0.36), (0.46, 0.36), (0.44, 0.24), (0.5, 0.04), (0.58, 0.24), (0.55, 0.36), (0.66, 0.36), (0.66, 0.8),
                 (0.82, 0.86), (0.82, 0.94), (0.18, 0.94), (0.18, 0.86), (0.36, 0.8)],
        colours=("#f4f1de", "#e5989b", "#b5c99a"),
        details=[("#ff9f1c", [(0.45, 0.3), (0.44, 0.24), (0.5, 0.04), (0.58, 0.24), (0.55, 0.32)]),
                 ("#6d4c41", [(0.36, 0.8), (0.66, 0.8), (0.82, 0.86), (0.82, 0.94), (0.18, 0.94), (0.18, 0.86)])],
        wordings={
            "train": ("what gives light when the power fails", "the thing with a wick that one lights"),
            "val": ("something made of wax that burns slowly",),
            "test": ("It is dark and there is no electricity. Which thing would help to read?",),
        },
    ),
    "scissors": Thing(
        outline=[(0.1, 0.06), (0.2, 0.06), (0.52, 0.46), (0.84, 0.06), (0.94, 0.06), (0.62, 0.56),
                 *_arc((0.76, 0.76), (0.19, 0.19), -120, 150), (0.52, 0.62), *_arc((0.26, 0.76), (0.19, 0.19), 30, 300), (0.42, 0.54)],
        colours=("#495057", "#9b2226", "#005f73"),
        details=[("#f8f4e8", _arc((0.77, 0.77), (0.09, 0.09), 0, 360)), ("#f8f4e8", _arc((0.25, 0.77), (0.09, 0.09), 0, 360))],
        wordings={
            "train": ("what cuts paper in two", "the thing a tailor cuts cloth with"),
            "val": ("something with two blades and two rings",),
            "test": ("A ribbon is too long. Which thing would make it shorter?",),
        },
    ),
    "fish": Thing(
        outline=[*_arc((0.42, 0.5), (0.4, 0.26), 25, 335), (0.97, 0.22), (0.9, 0.5), (0.97, 0.78)],
        colours=("#fb8500", "#219ebc", "#8ac926"),
        details=[("#ffffff", _arc((0.2, 0.43), (0.06, 0.06), 0, 360)), ("#000000", _arc((0.19, 0.43), (0.025, 0.025), 0, 360))],
        wordings={
            "train": ("what lives under water", "the thing that breathes through gills"),
            "val": ("something a cat would like to eat",),
            "test": ("Which of these would be at home in a river?",),
        },
    ),
    "clock": Thing(
        outline=_arc((0.5, 0.5), (0.46, 0.46), 0, 360, 28),
        colours=("#264653", "#bc6c25", "#6a4c93"),
        details=[("#ffffff", _arc((0.5, 0.5), (0.37, 0.37), 0, 360, 28)),
                 ("#000000", [(0.47, 0.52), (0.47, 0.2), (0.53, 0.2), (0.53, 0.52)]),
                 ("#000000", [(0.47, 0.47), (0.74, 0.47), (0.74, 0.53), (0.47, 0.53)])],
        wordings={
            "train": ("what shows how late it is", "the thing to look at so as not to miss a train"),
            "val": ("something with two hands and no arms",),
            "test": ("Someone asks for the time. Where would you look?",),
        },
    ),
    "house": Thing(
        outline=[(0.5, 0.04), (0.98, 0.46), (0.86, 0.46), (0.86, 0.96), (0.14, 0.96), (0.14, 0.46), (0.02, 0.46)],
        colours=("#cb997e", "#a5a58d", "#ddbea9"),
        details=[("#7f2b20", [(0.5, 0.04), (0.98, 0.46), (0.02, 0.46)]),
                 ("#4a3b2a", [(0.42, 0.64), (0.6, 0.64), (0.6, 0.96), (0.42, 0.96)])],
        wordings={
            "train": ("what a family lives in", "the thing with a roof and a door"),
            "val": ("something that a bricklayer builds",),
            "test": ("Where would people go home to in the evening?",),
        },
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Annotated:
    """A picture with an instruction, and the outlines of its target and of what is ignored."""

    image: Image
    instruction: str
    target: Sequence[Point]  # pixels
    ignored: Sequence[Point]


def _make(name: str, wording: str, draw: Draw) -> Annotated:
    """Three or four things; in a quarter of the pictures one of them is neither target nor background."""
    from PIL import Image, ImageDraw

    rng = draw.rng
    others = rng.sample([other for other in THINGS if other != name], rng.randint(2, 3))
    cells = rng.sample(CELLS, len(others) + 1)
    image = Image.new("RGB", (WIDTH * FINE, HEIGHT * FINE), rng.choice(WALLS))
    pen = ImageDraw.Draw(image)
    for row in (1, 2):  # shelves
        foot = HEIGHT * FINE * row / 2
        pen.rectangle((0, foot - 4 * FINE, WIDTH * FINE, foot), "#a98467", "#6c584c", FINE)
    outlines = [
        _place(pen, THINGS[thing], cell, rng)
        for thing, cell in zip((name, *others), cells, strict=True)
    ]
    ignored = outlines[-1] if rng.random() < 0.25 else []
    return Annotated(
        image=image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS),
        instruction=wording,
        target=outlines[0],
        ignored=ignored,
    )


def _place(pen: ImageDraw, thing: Thing, cell: tuple[int, int], rng: random.Random) -> list[Point]:
    """Draws a thing on its shelf, and returns its outline in pixels of the picture."""
    xs, ys = zip(*thing.outline, strict=True)
    size = rng.uniform(0.62, 0.9) * (WIDTH // 3 - 4)
    width, height = (round(size * (max(v) - min(v))) for v in (xs, ys))
    left = cell[0] * (WIDTH // 3) + 2 + rng.randint(0, WIDTH // 3 - 4 - width)
    top = (cell[1] + 1) * (HEIGHT // 2) - 4 - height
    mirrored = rng.random() < 0.5

    def places(points: Sequence[Point]) -> list[Point]:
        """In pixels. The outline ends within its last pixels, so that its box is that of its mask."""
        across = [(x - min(xs)) / (max(xs) - min(xs)) for x, _ in points]
        down = [(y - min(ys)) / (max(ys) - min(ys)) for _, y in points]
        return [
            (left + (width - 0.01) * (1 - x if mirrored else x), top + (height - 0.01) * y)
            for x, y in zip(across, down, strict=True)
        ]

    def fine(points: Sequence[Point]) -> list[Point]:
        return [(x * FINE, y * FINE) for x, y in places(points)]

    pen.polygon(fine(thing.outline), rng.choice(thing.colours))
    for colour, points in thing.details:
        pen.polygon(fine(points), colour)
    outline = fine(thing.outline)
    pen.line([*outline, outline[0]], "black", FINE)
    return [(round(x, 2), round(y, 2)) for x, y in places(thing.outline)]


def _write(rows: Sequence[Annotated], split: str, options: Options, folder: Path) -> None:
    for number, row in enumerate(rows):
        name = folder / f"ReasonSeg/{split}/{number:05}"
        shapes = [_shape("target", row.target)]
        if row.ignored:
            shapes.append(_shape("ignore", row.ignored))
        cells = {
            "text": [row.instruction],
            "is_sentence": row.instruction.endswith((".", "?")),
            "shapes": shapes,
        }
        write_bytes(name.with_suffix(".json"), json.dumps(cells).encode())
        write_bytes(name.with_suffix(".jpg"), encode_picture(row.image, "JPEG"))


def _shape(label: str, points: Sequence[Point]) -> dict[str, Any]:
    return {
        "label": label,
        "labels": [label],
        "shape_type": "polygon",
        "points": [list(p) for p in points],
    }


SYNTHETIC = Synthetic(
    templates={
        split: {
            f"{name}: {wording}": partial(_make, name, wording)
            for name, thing in THINGS.items()
            for wording in thing.wordings[split]
        }
        for split in ("train", "val", "test")
    },
    write=_write,
)
