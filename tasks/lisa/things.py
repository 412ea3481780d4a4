"""Things with outlines, each in a colour of its own, and what they are for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Point = tuple[float, float]


def _arc(centre: Point, radii: Point, start: float, stop: float, steps: int = 14) -> list[Point]:
    """Points of an ellipse, in degrees clockwise from the right."""
    turns = [math.radians(start + (stop - start) * k / steps) for k in range(steps + 1)]
    return [(centre[0] + radii[0] * math.cos(t), centre[1] + radii[1] * math.sin(t)) for t in turns]


@dataclass(frozen=True, kw_only=True)
class Thing:
    """A thing in a square from (0, 0) at the upper left to (1, 1): its outline, and what is drawn on it."""

    outline: Sequence[Point]
    colour: str
    details: Sequence[tuple[str, Sequence[Point]]] = ()  # colour, polygon within the outline
    purposes: tuple[str, str, str]  # ways to say what it is or does


THINGS: Mapping[str, Thing] = {
    "umbrella": Thing(
        outline=[
            *_arc((0.5, 0.5), (0.48, 0.42), 180, 360),
            *((0.54, 0.5), (0.54, 0.92), (0.46, 0.97), (0.34, 0.92), (0.34, 0.84), (0.42, 0.88), (0.46, 0.84), (0.46, 0.5)),
        ],
        colour="#c1121f",
        details=[("#4a3b2a", [(0.46, 0.5), (0.54, 0.5), (0.54, 0.92), (0.46, 0.97), (0.34, 0.92), (0.34, 0.84), (0.42, 0.88), (0.46, 0.84)])],
        purposes=("keeps a walker dry when it rains", "opens above your head in bad weather", "is carried in a shower of rain"),
    ),
    "mug": Thing(
        outline=[
            *((0.12, 0.2), (0.7, 0.2), (0.7, 0.32)),
            *_arc((0.72, 0.52), (0.2, 0.2), -90, 90),
            *((0.7, 0.72), (0.7, 0.88), (0.12, 0.88)),
        ],
        colour="#1f9d8b",
        details=[("#5a3a22", [(0.17, 0.25), (0.65, 0.25), (0.65, 0.33), (0.17, 0.33)]),
                 ("#8d99ae", _arc((0.73, 0.52), (0.1, 0.1), -80, 80))],
        purposes=("holds hot coffee", "is filled with tea", "keeps a drink warm"),
    ),
    "key": Thing(
        outline=[
            *_arc((0.25, 0.5), (0.22, 0.22), 20, 340),
            *((0.97, 0.42), (0.97, 0.58), (0.9, 0.58), (0.9, 0.74), (0.8, 0.74), (0.8, 0.58), (0.72, 0.58), (0.72, 0.7), (0.62, 0.7), (0.62, 0.58)),
        ],
        colour="#e0b100",
        details=[("#f8f4e8", _arc((0.22, 0.5), (0.09, 0.09), 0, 360))],
        purposes=("unlocks the front door", "turns in a lock", "lets you into a closed house"),
    ),
    "candle": Thing(
        outline=[(0.36, 0.36), (0.46, 0.36), (0.44, 0.24), (0.5, 0.04), (0.58, 0.24), (0.55, 0.36), (0.66, 0.36), (0.66, 0.8),
                 (0.82, 0.86), (0.82, 0.94), (0.18, 0.94), (0.18, 0.86), (0.36, 0.8)],
        colour="#f29bbb",
        details=[("#ff9f1c", [(0.45, 0.3), (0.44, 0.24), (0.5, 0.04), (0.58, 0.24), (0.55, 0.32)]),
                 ("#6d4c41", [(0.36, 0.8), (0.66, 0.8), (0.82, 0.86), (0.82, 0.94), (0.18, 0.94), (0.18, 0.86)])],
        purposes=("gives light when the power fails", "has a wick that one lights", "is made of wax and burns slowly"),
    ),
    "scissors": Thing(
        outline=[(0.1, 0.06), (0.2, 0.06), (0.52, 0.46), (0.84, 0.06), (0.94, 0.06), (0.62, 0.56),
                 *_arc((0.76, 0.76), (0.19, 0.19), -120, 150), (0.52, 0.62), *_arc((0.26, 0.76), (0.19, 0.19), 30, 300), (0.42, 0.54)],
        colour="#343a40",
        details=[("#f8f4e8", _arc((0.77, 0.77), (0.09, 0.09), 0, 360)), ("#f8f4e8", _arc((0.25, 0.77), (0.09, 0.09), 0, 360))],
        purposes=("cuts paper in two", "divides the cloth of a tailor", "has two blades and two rings"),
    ),
    "fish": Thing(
        outline=[*_arc((0.42, 0.5), (0.4, 0.26), 25, 335), (0.97, 0.22), (0.9, 0.5), (0.97, 0.78)],
        colour="#fb8500",
        details=[("#ffffff", _arc((0.2, 0.43), (0.06, 0.06), 0, 360)), ("#000000", _arc((0.19, 0.43), (0.025, 0.025), 0, 360))],
        purposes=("lives under water", "breathes through gills", "would please a hungry cat"),
    ),
    "clock": Thing(
        outline=_arc((0.5, 0.5), (0.46, 0.46), 0, 360, 28),
        colour="#1d4ed8",
        details=[("#ffffff", _arc((0.5, 0.5), (0.37, 0.37), 0, 360, 28)),
                 ("#000000", [(0.47, 0.52), (0.47, 0.2), (0.53, 0.2), (0.53, 0.52)]),
                 ("#000000", [(0.47, 0.47), (0.74, 0.47), (0.74, 0.53), (0.47, 0.53)])],
        purposes=("shows how late it is", "is looked at so as not to miss a train", "has two hands and no arms"),
    ),
    "house": Thing(
        outline=[(0.5, 0.04), (0.98, 0.46), (0.86, 0.46), (0.86, 0.96), (0.14, 0.96), (0.14, 0.46), (0.02, 0.46)],
        colour="#7b4fa6",
        details=[("#4b2a75", [(0.5, 0.04), (0.98, 0.46), (0.02, 0.46)]),
                 ("#4a3b2a", [(0.42, 0.64), (0.6, 0.64), (0.6, 0.96), (0.42, 0.96)])],
        purposes=("is home to a family", "has a roof and a door", "is built by a bricklayer"),
    ),
}  # fmt: skip
