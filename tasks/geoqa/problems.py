"""Problems of plane geometry with computed answers: a figure to scale, the numbers of its question, the answer."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from .figures import Figure, between, corner, on_circle

TRIPLES = ((3, 4, 5), (6, 8, 10), (5, 12, 13), (9, 12, 15), (8, 15, 17))
TOP = (0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A figure with the numbers of its question, and the answer."""

    figure: Figure
    numbers: Mapping[str, int]
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
