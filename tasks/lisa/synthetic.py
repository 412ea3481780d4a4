"""Synthetic pictures of things, each in a place of its own, with an instruction that names what one of them is for.

They are stored as ReasonSeg's: a picture with a json of the target's polygon and the instruction. Training, validation and test
have the same things and ask for them in the same words and in other sentences.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlrft.data import Draw, Synthetic, encode_picture, write_bytes

from .rows import Options
from .things import THINGS, Point, Thing

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

SIZE, FINE = 112, 3  # pixels; drawn larger by this factor, for smooth edges
STEP = 14  # pixels; the unit of places and sizes: few different numbers to learn
CELL = SIZE // 2 // STEP  # units across
CELLS = {(0, 0): "#5f7790", (1, 0): "#97785a", (0, 1): "#648560", (1, 1): "#8a6678"}
"""The compartments of a cupboard, each painted in its own colour. All are near the grey that the image processor makes 0: light paint becomes
a large number, beside which a policy with random weights does not see the things."""
NAMES = {(0, 0): "upper left", (1, 0): "upper right", (0, 1): "lower left", (1, 1): "lower right"}
FRAMES = ("the thing that {}", "Something here {}. Where is it?", "Which of these {}?")
SPLITS = {"train": 0, "val": 1, "test": 2}
"""A split has the k-th purpose of a thing in the frame k + this: each has all words, and no two share a sentence."""


@dataclass(frozen=True, kw_only=True)
class Annotated:
    """A picture with an instruction, and the outlines of its target and of what is ignored."""

    image: Image
    instruction: str
    target: Sequence[Point]  # pixels
    ignored: Sequence[Point]
    thought: str


def _make(name: str, wording: str, draw: Draw) -> Annotated:
    """Two or three things; in a quarter of the pictures, one of the others is neither target nor background."""
    from PIL import Image, ImageDraw

    rng = draw.rng
    others = rng.sample([other for other in THINGS if other != name], rng.randint(1, 2))
    cells = rng.sample(list(CELLS), len(others) + 1)
    image = Image.new("RGB", (SIZE * FINE, SIZE * FINE))
    pen = ImageDraw.Draw(image)
    for (column, row), paint in CELLS.items():
        left, top, side = (v * SIZE * FINE // 2 for v in (column, row, 1))
        pen.rectangle((left, top, left + side, top + side), paint, "#a98467", FINE)
    outlines = [
        _place(pen, THINGS[thing], cell, rng)
        for thing, cell in zip((name, *others), cells, strict=True)
    ]
    ignored = outlines[1] if rng.random() < 0.25 else []
    return Annotated(
        image=image.resize((SIZE, SIZE), Image.Resampling.LANCZOS),
        instruction=wording,
        target=outlines[0],
        ignored=ignored,
        thought=_look_around(dict(zip(cells, (name, *others), strict=True)), name),
    )


def _look_around(things: Mapping[tuple[int, int], str], target: str) -> str:
    """Each compartment with its thing, and whether that is the target."""
    seen = []
    for cell, name in NAMES.items():
        thing = things.get(cell)
        answer = {None: "nothing", target: f"{thing} yes"}.get(thing, f"{thing} no")
        seen.append(f"{name} {answer}")
    return ", ".join(seen)


def _place(pen: ImageDraw, thing: Thing, cell: tuple[int, int], rng: random.Random) -> list[Point]:
    """Draws a thing in its compartment, and returns its outline in pixels of the picture."""
    xs, ys = zip(*thing.outline, strict=True)
    size = rng.randint(CELL - 2, CELL - 1)
    width, height = (round(size * (max(v) - min(v)) + 0.2) for v in (xs, ys))
    left, top = cell[0] * CELL + rng.randint(0, CELL - width), (cell[1] + 1) * CELL - height
    mirrored = rng.random() < 0.5

    def places(points: Sequence[Point]) -> list[Point]:
        """In pixels. The outline ends within its last pixels, so that its box is that of its mask."""
        across = [(x - min(xs)) / (max(xs) - min(xs)) for x, _ in points]
        down = [(y - min(ys)) / (max(ys) - min(ys)) for _, y in points]
        return [
            (
                left * STEP + (width * STEP - 0.01) * (1 - x if mirrored else x),
                top * STEP + (height * STEP - 0.01) * y,
            )
            for x, y in zip(across, down, strict=True)
        ]

    def fine(points: Sequence[Point]) -> list[Point]:
        return [(x * FINE, y * FINE) for x, y in places(points)]

    pen.polygon(fine(thing.outline), thing.colour)
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


def _sentences(thing: Thing, shift: int) -> list[str]:
    return [
        FRAMES[(k + shift) % len(FRAMES)].format(purpose)
        for k, purpose in enumerate(thing.purposes)
    ]


SYNTHETIC = Synthetic(
    templates={
        split: {
            f"{name}: {sentence}": partial(_make, name, sentence)
            for name, thing in THINGS.items()
            for sentence in _sentences(thing, shift)
        }
        for split, shift in SPLITS.items()
    },
    write=_write,
    thought=lambda row, index, split, options: (f"{split}/{index:05}/0", row.thought),
)
