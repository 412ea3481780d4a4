"""Synthetic diagrams: figures to scale with a computed answer. Training and test ask the same kinds of questions in other words.

The training rows are a table as R1-V's training set, the test rows its `geoqa_test_prompts.jsonl` next to pictures as Geo170K's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlrft.data import Draw, Synthetic, encode_picture, write_bytes, write_hub_table, write_lines

from .figures import Figure, between, corner, on_circle

if TYPE_CHECKING:
    from PIL.Image import Image

COLUMNS = {"image": "image", "problem": "string", "solution": "string"}
TRIPLES = ((3, 4, 5), (6, 8, 10), (5, 12, 13), (9, 12, 15), (8, 15, 17))
TOP = (0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A figure with the numbers of its question, and the answer."""

    figure: Figure
    numbers: Mapping[str, int]
    answer: str


@dataclass(frozen=True, kw_only=True)
class Item:
    """A diagram with its question and answer."""

    image: Image
    question: str
    answer: str


def _triangle(rng: random.Random) -> tuple[int, int, dict[str, tuple[float, float]]]:
    """The angles at A and B in whole tens or fives, and the corners."""
    while True:
        a, b = (5 * rng.randint(7, 20) for _ in "ab")
        if 35 <= 180 - a - b <= 100 and b <= 90:
            break
    left, right = (0.0, 0.0), (1.0, 0.0)
    return a, b, {"A": corner(left, right, b, 180 - a - b), "B": left, "C": right}


def third_angle(rng: random.Random) -> Problem:
    a, b, points = _triangle(rng)
    angles = {"BAC": f"{a}°", "ABC": f"{b}°"}
    figure = Figure(points=points, lines=("AB", "BC", "CA"), angles=angles)
    return Problem(figure=figure, numbers={"a": a, "b": b}, answer=f"{180 - a - b}°")


def outer_angle(rng: random.Random) -> Problem:
    """The angle ACD, with D on the line of B and C."""
    a, b, points = _triangle(rng)
    points["D"] = between(points["B"], points["C"], 1.5)
    angles = {"BAC": f"{a}°", "ABC": f"{b}°"}
    figure = Figure(points=points, lines=("AB", "BD", "CA"), angles=angles)
    return Problem(figure=figure, numbers={"a": a, "b": b}, answer=f"{a + b}°")


def parallel(rng: random.Random) -> Problem:
    """The angle CED, with DE parallel to BC."""
    a, b, points = _triangle(rng)
    share = rng.uniform(0.45, 0.6)
    points |= {
        "D": between(points["A"], points["B"], share),
        "E": between(points["A"], points["C"], share),
    }
    figure = Figure(
        points=points,
        lines=("AD", "DB", "BC", "AE", "EC", "DE"),
        angles={"ABC": f"{b}°", "BAC": f"{a}°"},
    )
    return Problem(figure=figure, numbers={"a": a, "b": b}, answer=f"{a + b}°")


def isosceles(rng: random.Random) -> Problem:
    a = 10 * rng.randint(3, 12)
    base = (180 - a) // 2
    points = {"B": (0.0, 0.0), "C": (1.0, 0.0), "A": corner((0.0, 0.0), (1.0, 0.0), base, base)}
    figure = Figure(points=points, lines=("AB", "BC", "CA"), angles={"BAC": f"{a}°"})
    return Problem(figure=figure, numbers={"a": a}, answer=f"{base}°")


def crossing(rng: random.Random) -> Problem:
    """The angle BOC of two lines AB and CD through O."""
    a = 5 * rng.randint(11, 25)
    points = {
        "O": TOP,
        "A": on_circle(180),
        "B": on_circle(0),
        "C": on_circle(180 - a),
        "D": on_circle(-a),
    }
    figure = Figure(points=points, lines=("AO", "OB", "CO", "OD"), angles={"AOC": f"{a}°"})
    return Problem(figure=figure, numbers={"a": a}, answer=f"{180 - a}°")


def inscribed(rng: random.Random) -> Problem:
    """The angle ACB on a circle around O, given AOB."""
    a = 10 * rng.randint(5, 15)
    above = 90 + rng.randint(-25, 25)
    points = {
        "O": TOP,
        "A": on_circle(-90 - a / 2),
        "B": on_circle(-90 + a / 2),
        "C": on_circle(above),
    }
    figure = Figure(
        points=points,
        lines=("AO", "OB", "CA", "CB"),
        circles={"O": 1.0},
        angles={"AOB": f"{a}°"},
    )
    return Problem(figure=figure, numbers={"a": a}, answer=f"{a // 2}°")


def hypotenuse(rng: random.Random) -> Problem:
    a, b, c = rng.choice(TRIPLES)
    points = {"A": (0.0, float(a)), "B": (float(b), 0.0), "C": (0.0, 0.0)}
    sides = {"AC": str(a), "BC": str(b)}
    figure = Figure(points=points, lines=("AB", "BC", "CA"), angles={"ACB": ""}, sides=sides)
    return Problem(figure=figure, numbers={"a": a, "b": b}, answer=str(c))


def diagonal(rng: random.Random) -> Problem:
    """The diagonal AC of a square."""
    a = rng.randint(2, 12)
    points = {"A": (0.0, 1.0), "B": (0.0, 0.0), "C": (1.0, 0.0), "D": (1.0, 1.0)}
    figure = Figure(points=points, lines=("AB", "BC", "CD", "DA", "AC"), sides={"BC": str(a)})
    return Problem(figure=figure, numbers={"a": a}, answer=f"{a}√{{2}}")


def midline(rng: random.Random) -> Problem:
    """DE between the middles of AB and AC, given BC."""
    _, _, points = _triangle(rng)
    half = rng.randint(2, 15)
    points |= {n: between(points["A"], points[end], 0.5) for n, end in (("D", "B"), ("E", "C"))}
    figure = Figure(
        points=points, lines=("AD", "DB", "BC", "AE", "EC", "DE"), sides={"BC": f"{2 * half}cm"}
    )
    return Problem(figure=figure, numbers={"a": 2 * half}, answer=f"{half}cm")


def disc(rng: random.Random) -> Problem:
    """The area of a circle around O through A."""
    a = rng.randint(2, 12)
    points = {"O": TOP, "A": on_circle(rng.randint(-30, 30))}
    figure = Figure(points=points, lines=("OA",), circles={"O": 1.0}, sides={"OA": str(a)})
    return Problem(figure=figure, numbers={"a": a}, answer=f"{a * a}π")


KINDS: Mapping[Callable[[random.Random], Problem], tuple[str, str]] = {
    third_angle: (
        "As shown in the figure, in triangle ABC, angle A = {a}.0, angle B = {b}.0, then the size of angle C is ()",
        "As shown in the figure, it is known that two angles of triangle ABC are angle A = {a}.0 and angle B = {b}.0, so how "
        "large is angle C? ()",
    ),
    outer_angle: (
        "As shown in the figure, D is on the extension of BC, angle A = {a}.0, angle B = {b}.0, then the degree of angle ACD "
        "is ()",
        "As shown in the figure, angle ACD is an exterior angle of triangle ABC, if angle B = {b}.0 and angle A = {a}.0, then "
        "angle ACD = ()",
    ),
    parallel: (
        "As shown in the figure, DE parallel  BC, angle A = {a}.0, angle B = {b}.0, then the size of angle CED is ()",
        "As shown in the figure, in triangle ABC, points D and E are on AB and AC, DE parallel  BC, if angle B = {b}.0, angle "
        "A = {a}.0, then angle CED equals ()",
    ),
    isosceles: (
        "As shown in the figure, in triangle ABC, AB = AC, angle A = {a}.0, then the size of angle B is ()",
        "As shown in the figure, the vertex angle A of the isosceles triangle ABC is {a}.0, then its base angle B is equal to ()",
    ),
    crossing: (
        "As shown in the figure, the straight lines AB and CD intersect at point O, angle AOC = {a}.0, then angle BOC is ()",
        "As shown in the figure, AB passes through a point O of the line CD, if angle AOC is equal to {a}.0, the degree of "
        "angle BOC is ()",
    ),
    inscribed: (
        "As shown in the figure, points A, B and C are on circle O, angle AOB = {a}.0, then the size of angle ACB is ()",
        "As shown in the figure, in circle O the central angle AOB is {a}.0, then the inscribed angle ACB of the same arc is ()",
    ),
    hypotenuse: (
        "As shown in the figure, in right triangle ABC, angle C = 90.0, AC = {a}, BC = {b}, then the length of AB is ()",
        "As shown in the figure, the legs of the right triangle ABC are AC = {a} and BC = {b}, then its hypotenuse AB is ()",
    ),
    diagonal: (
        "As shown in the figure, the side BC of the square ABCD is {a}, then the length of AC is ()",
        "As shown in the figure, ABCD is a square with BC = {a}, then its diagonal AC is equal to ()",
    ),
    midline: (
        "As shown in the figure, D and E are the midpoints of AB and AC, BC = {a}cm, then the length of DE is ()",
        "As shown in the figure, DE is the median line of triangle ABC, if BC is {a}cm long, then DE = ()",
    ),
    disc: (
        "As shown in the figure, the radius OA of circle O is {a}, then the area of the circle is ()",
        "As shown in the figure, A is on circle O, if OA = {a}, then the circle covers an area of ()",
    ),
}
"""A kind of problem -> its wording in training and in the test."""


def _make(kind: Callable[[random.Random], Problem], wording: str, draw: Draw) -> Item:
    problem = kind(draw.rng)
    return Item(
        image=problem.figure.turned(draw.rng).draw(),
        question=wording.format(**problem.numbers),
        answer=problem.answer,
    )


def _write(rows: Sequence[Item], split: str, options: Any, folder: Path) -> None:
    if split == "train":
        cells = [
            {"image": r.image, "problem": r.question, "solution": f"<answer> {r.answer} </answer>"}
            for r in rows
        ]
        write_hub_table(folder / "data/train-00000-of-00001.parquet", COLUMNS, cells)
        return
    lines = []
    for number, row in enumerate(rows):
        name = f"Geo170K/images/test/{number}.png"
        write_bytes(folder / "src/eval" / name, encode_picture(row.image))
        lines.append(
            {"image_path": f"./{name}", "question": row.question, "ground_truth": row.answer}
        )
    write_lines(folder / "src/eval/prompts/geoqa_test_prompts.jsonl", lines)


SYNTHETIC = Synthetic(
    templates={
        split: {
            f"{split}: {words[k]}": partial(_make, kind, words[k]) for kind, words in KINDS.items()
        }
        for k, split in enumerate(("train", "test"))
    },
    write=_write,
)
