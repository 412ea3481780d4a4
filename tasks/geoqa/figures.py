"""Drawn figures of plane geometry: points with their letters, lines, circles, and the sizes of angles and sides, to scale."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

FINE = 3  # pictures are drawn larger by this factor, for smooth lines
Point = tuple[float, float]  # upwards


@dataclass(frozen=True, kw_only=True)
class Style:
    """Lengths of a picture, in pixels."""

    size: tuple[int, int] = (168, 140)
    margin: int = 18
    letter: int = 12  # the height of a point's letter; 0: without letters
    number: int = 11  # the height of the text of a side or an angle
    bold: float = 0  # what the strokes of letters and numbers gain on each side
    line: float = 4 / 3
    paper: str = "white"
    ink: str = "black"


PLAIN = Style()


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure in units of its own. Sides and angles are named by their points: `AB`, and `ABC` for the angle at B."""

    points: Mapping[str, Point]
    lines: Sequence[str]
    circles: Mapping[str, float] = field(default_factory=dict[str, float])  # centre -> radius
    angles: Mapping[str, str] = field(default_factory=dict[str, str])  # angle -> its text
    sides: Mapping[str, str] = field(default_factory=dict[str, str])  # side -> its text

    def turned(self, rng: random.Random, most: float = 20) -> Figure:
        """Turned by up to so many degrees, and mirrored half of the time."""
        turn, side = math.radians(rng.uniform(-most, most)), rng.choice((-1, 1))
        cos, sin = math.cos(turn), math.sin(turn)
        points = {
            n: (side * (x * cos - y * sin), x * sin + y * cos) for n, (x, y) in self.points.items()
        }
        return replace(self, points=points)

    def draw(self, style: Style = PLAIN) -> Image:
        """The picture."""
        from PIL import Image, ImageDraw

        image = Image.new("RGB", (style.size[0] * FINE, style.size[1] * FINE), style.paper)
        pen = ImageDraw.Draw(image)
        at, unit = self._places(style)
        width = round(style.line * FINE)
        for line in self.lines:
            pen.line([at[name] for name in line], style.ink, width)
        for centre, radius in self.circles.items():
            x, y = at[centre]
            r = radius * unit
            pen.ellipse((x - r, y - r, x + r, y + r), outline=style.ink, width=width)
            pen.ellipse((x - 4, y - 4, x + 4, y + 4), style.ink)
        middle = _mean(list(at.values()))
        for angle, text in self.angles.items():
            a, b, c = (at[name] for name in angle)
            _write_angle(pen, a, b, c, text, style)
        for side, text in self.sides.items():
            a, b = (at[name] for name in side)
            aside = 9 * FINE * style.number / PLAIN.number
            _text(pen, _beside(a, b, middle, _mean([a, b]), aside), text, style.number, style)
        for name, place in at.items() if style.letter else ():
            _text(
                pen,
                _away(place, self._around(name, at, middle), 9 * FINE),
                name,
                style.letter,
                style,
            )
        return image.resize(style.size, Image.Resampling.LANCZOS)

    def _places(self, style: Style) -> tuple[dict[str, Point], float]:
        """Each point's place in the picture, and the pixels of a unit."""
        corners = list(self.points.values())
        for centre, radius in self.circles.items():
            x, y = self.points[centre]
            corners += [(x - radius, y - radius), (x + radius, y + radius)]
        left, right = min(x for x, _ in corners), max(x for x, _ in corners)
        low, high = min(y for _, y in corners), max(y for _, y in corners)
        room = [(length - 2 * style.margin) * FINE for length in style.size]
        unit = min(room[0] / max(right - left, 1e-9), room[1] / max(high - low, 1e-9))
        middle = ((left + right) / 2, (low + high) / 2)
        width, height = style.size[0] * FINE, style.size[1] * FINE
        return {
            name: (width / 2 + (x - middle[0]) * unit, height / 2 - (y - middle[1]) * unit)
            for name, (x, y) in self.points.items()
        }, unit

    def _around(self, name: str, at: Mapping[str, Point], middle: Point) -> Point:
        """The place that a point's letter is written away from: the mean of the points that lines lead to, or
        of the arms of its angle."""
        ends = [at[line.replace(name, "")] for line in self.lines if name in line]
        mean = _mean(ends) if ends else middle
        if math.dist(mean, at[name]) > 2 * FINE:
            return mean
        arms = [(at[n[0]], at[n[2]]) for n in self.angles if n[1] == name]
        return _mean(arms[0]) if arms else middle


def corner(a: Point, b: Point, degrees_a: float, degrees_b: float) -> Point:
    """The third corner of a triangle with its angles at a and b, to the left of a line from a to b."""
    length, heading = math.dist(a, b), math.atan2(b[1] - a[1], b[0] - a[0])
    third = math.radians(180 - degrees_a - degrees_b)
    side = length * math.sin(math.radians(degrees_b)) / math.sin(third)
    turn = heading + math.radians(degrees_a)
    return (a[0] + side * math.cos(turn), a[1] + side * math.sin(turn))


def between(a: Point, b: Point, share: float) -> Point:
    """The point at a share of the way from a to b."""
    return (a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1]))


def on_circle(degrees: float, radius: float = 1.0) -> Point:
    """The point of a circle around (0, 0)."""
    turn = math.radians(degrees)
    return (radius * math.cos(turn), radius * math.sin(turn))


def _write_angle(pen: ImageDraw, a: Point, b: Point, c: Point, text: str, style: Style) -> None:
    """An arc between the two arms at b, or a corner for a right angle, and the text next to it."""
    first = math.degrees(math.atan2(a[1] - b[1], a[0] - b[0]))
    opening = (math.degrees(math.atan2(c[1] - b[1], c[0] - b[0])) - first + 180) % 360 - 180
    start, stop = sorted((first, first + opening))
    radius = 9 * FINE
    if text == "":
        u, v = (between(b, p, 7 * FINE / max(math.dist(b, p), 1)) for p in (a, c))
        far = (u[0] + v[0] - b[0], u[1] + v[1] - b[1])
        pen.line([u, far, v], style.ink, FINE)
        return
    pen.arc(
        (b[0] - radius, b[1] - radius, b[0] + radius, b[1] + radius), start, stop, style.ink, FINE
    )
    turn = math.radians(first + opening / 2)
    scale = style.number / PLAIN.number
    wide, high = (
        3.2 * len(text) * FINE * scale,
        5.5 * FINE * scale,
    )  # half of the text's width and height
    cos, sin = abs(math.cos(turn)), abs(math.sin(turn))
    clear = radius + FINE + cos * wide + sin * high  # of the arc
    fitting = (
        1.3 * (sin * wide + cos * high) / math.tan(math.radians(abs(opening) / 2))
    )  # of the arms
    reach = max(clear, min(fitting, 32 * FINE * scale))
    _text(
        pen,
        (b[0] + reach * math.cos(turn), b[1] + reach * math.sin(turn)),
        text,
        style.number,
        style,
    )


def _beside(a: Point, b: Point, middle: Point, place: Point, aside: float) -> Point:
    """A place next to the line from a to b, on its side away from the middle."""
    length = max(math.dist(a, b), 1)
    across = ((a[1] - b[1]) / length, (b[0] - a[0]) / length)
    toward = (middle[0] - place[0]) * across[0] + (middle[1] - place[1]) * across[1]
    side = -aside if toward > 0 else aside
    return (place[0] + side * across[0], place[1] + side * across[1])


def _away(place: Point, centre: Point, distance: float) -> Point:
    length = math.dist(place, centre) or 1.0
    x, y = ((p - c) / length * distance for p, c in zip(place, centre, strict=True))
    return (place[0] + x, place[1] + y)


def _mean(points: Sequence[Point]) -> Point:
    return (sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points))


def _text(pen: ImageDraw, place: Point, text: str, height: int, style: Style) -> None:
    from PIL import ImageFont

    font = ImageFont.load_default(height * FINE)
    pen.text(place, text, style.ink, font, anchor="mm", stroke_width=style.bold * FINE)
