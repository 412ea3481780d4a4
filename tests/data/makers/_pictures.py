"""What the data sets' pictures are made of: drawn diagrams, scanned digits, photographs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

Point = tuple[float, float]
COLOURS = ("firebrick", "royalblue", "seagreen", "goldenrod", "purple", "gray", "teal", "brown")


def diagram(
    points: dict[str, Point], lines: Sequence[tuple[str, str]], size: tuple[int, int]
) -> Image.Image:
    """Named points (as shares of the size) and the lines between them, as geometry books draw them."""
    image = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(image)
    at = {name: (x * size[0], y * size[1]) for name, (x, y) in points.items()}
    for a, b in lines:
        pen.line([at[a], at[b]], fill="black", width=2)
    for name, (x, y) in at.items():
        pen.text((x + 4, y - 12), name, fill="black")
    return image


def triangle(size: tuple[int, int] = (224, 168)) -> Image.Image:
    corners = {
        "A": (0.5, 0.12),
        "B": (0.1, 0.88),
        "C": (0.9, 0.88),
        "D": (0.3, 0.5),
        "E": (0.7, 0.5),
    }
    return diagram(corners, (("A", "B"), ("B", "C"), ("C", "A"), ("D", "E")), size)


def circle(size: tuple[int, int] = (196, 196)) -> Image.Image:
    image = diagram(
        {"O": (0.5, 0.5), "P": (0.9, 0.5), "Q": (0.5, 0.1)},
        (("O", "P"), ("O", "Q"), ("P", "Q")),
        size,
    )
    ImageDraw.Draw(image).ellipse(
        [size[0] * 0.1, size[1] * 0.1, size[0] * 0.9, size[1] * 0.9], outline="black"
    )
    return image


def things(count: int, seed: int, size: tuple[int, int] = (240, 160)) -> Image.Image:
    """So many coloured balls and boxes on a floor, none over another."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", size, (188, 188, 188))
    pen = ImageDraw.Draw(image)
    cells = [(x, y) for x in range(5) for y in range(3)]
    for k, place in enumerate(rng.permutation(len(cells))[:count]):
        x, y = cells[place]
        box = [
            x * size[0] // 5 + 8,
            y * size[1] // 3 + 8,
            x * size[0] // 5 + 40,
            y * size[1] // 3 + 40,
        ]
        (pen.ellipse if k % 2 else pen.rectangle)(box, fill=COLOURS[k % len(COLOURS)])
    return image


@cache
def photograph(name: str = "china.jpg") -> Image.Image:
    """One of the two photographs that come with scikit-learn: 640 x 427 pixels."""
    from sklearn.datasets import load_sample_image

    return Image.fromarray(load_sample_image(name))


@cache
def scanned_digit(place: int) -> Image.Image:
    """A scanned digit of scikit-learn's, eight times enlarged."""
    from sklearn.datasets import load_digits

    shades = 255 - load_digits().images[place] * 255 / 16
    return Image.fromarray(shades.astype("uint8")).resize((64, 64)).convert("RGB")


def encoded(image: Image.Image, kind: str = "PNG", **settings: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **settings)
    return out.getvalue()


def turned(image: Image.Image) -> bytes:
    """A JPEG that lies on its side, with the EXIF tag by which viewers turn it upright."""
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: turn right
    return encoded(image.rotate(90, expand=True), "JPEG", exif=exif)


def see_through(image: Image.Image) -> bytes:
    """A PNG with an alpha channel: its white is transparent, over black."""
    shade = image.convert("L")
    found = Image.new("RGBA", image.size, (0, 0, 0, 255))
    found.putalpha(shade.point(lambda s: 0 if s > 200 else 255))
    return encoded(found)
