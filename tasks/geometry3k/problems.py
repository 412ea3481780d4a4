"""Problems of plane geometry whose numbers are in the figure alone: what is named `x`, and wrong values for it.

A kind of problem has few numbers, so that a small policy can learn to read them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..geoqa.figures import Figure, between, corner, on_circle

TRIPLES = ((3, 4, 5), (6, 8, 10), (5, 12, 13), (9, 12, 15), (8, 15, 17))


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A figure in which something is named `x`, its value, wrong values that one may come to, and the way to the right one."""

    figure: Figure
    answer: str
    wrong: Sequence[str]
    thought: str


def _numbers(answer: float, *wrong: float) -> tuple[str, list[str]]:
    """The answer and three different wrong values, as the data set writes numbers: at most one digit after the point."""
    near = (answer + k for k in (2, 5, 10, 15))
    texts = dict.fromkeys(f"{v:g}" for v in (answer, *wrong, *near) if v > 0)
    first, *others = texts
    return first, others[:3]


def _surds(factor: int, root: int) -> tuple[str, list[str]]:
    """`6 \\sqrt { 3 }` and three wrong values."""
    other = 5 - root  # 2 and 3
    return f"{factor} \\sqrt {{ {root} }}", [
        f"{factor} \\sqrt {{ {other} }}",
        f"{2 * factor}",
        f"{factor + 1} \\sqrt {{ {root} }}",
    ]


def third_angle(rng: random.Random) -> Problem:
    while True:
        a, b = (10 * rng.randint(4, 8) for _ in "ab")
        if 30 <= 180 - a - b <= 100:
            break
    points = {"B": (0.0, 0.0), "C": (1.0, 0.0), "A": corner((0.0, 0.0), (1.0, 0.0), b, 180 - a - b)}
    angles = {"BAC": str(a), "ABC": str(b), "BCA": "x"}
    figure = Figure(points=points, lines=("AB", "BC", "CA"), angles=angles)
    answer, wrong = _numbers(180 - a - b, a + b, 180 - a, 180 - b)
    thought = f"{a} and {b}. 180 - {a} - {b} = {answer}"
    return Problem(figure=figure, answer=answer, wrong=wrong, thought=thought)


def linear_pair(rng: random.Random) -> Problem:
    a = 10 * rng.randint(5, 13)
    points = {"O": (0.0, 0.0), "A": on_circle(180), "B": on_circle(0), "C": on_circle(180 - a)}
    figure = Figure(points=points, lines=("AO", "OB", "OC"), angles={"AOC": str(a), "BOC": "x"})
    answer, wrong = _numbers(180 - a, a, 90, 360 - a)
    thought = f"{a}. 180 - {a} = {answer}"
    return Problem(figure=figure, answer=answer, wrong=wrong, thought=thought)


def hypotenuse(rng: random.Random) -> Problem:
    a, b, c = rng.choice(TRIPLES)
    answer, wrong = _numbers(c, a + b, b - a, c + 1)
    figure = _right(a, b, (str(a), str(b), "x"))
    thought = f"legs {a} and {b}, hypotenuse {c}"
    return Problem(figure=figure, answer=answer, wrong=wrong, thought=thought)


def leg(rng: random.Random) -> Problem:
    a, b, c = rng.choice(TRIPLES)
    answer, wrong = _numbers(b, c - a, c + a, b + 1)
    figure = _right(a, b, (str(a), "x", str(c)))
    thought = f"leg {a} and hypotenuse {c}, leg {b}"
    return Problem(figure=figure, answer=answer, wrong=wrong, thought=thought)


def equal_legs(rng: random.Random) -> Problem:
    """The hypotenuse of a right triangle with two sides of one length."""
    a = rng.randint(2, 9)
    answer, wrong = _surds(a, 2)
    figure = _right(1, 1, (str(a), str(a), "x"))
    thought = f"legs {a} and {a}, root of 2"
    return Problem(figure=figure, answer=answer, wrong=wrong, thought=thought)


def sixty(rng: random.Random) -> Problem:
    """The side opposite to 60 degrees, given the one opposite to 30."""
    a = rng.randint(2, 9)
    figure = _right(1, math.sqrt(3), (str(a), "x", ""), {"CAB": "60"})
    answer, wrong = _surds(a, 3)
    thought = f"leg {a} and 60, root of 3"
    return Problem(figure=figure, answer=answer, wrong=wrong, thought=thought)


def middles(rng: random.Random) -> Problem:
    """The line between the middles of two sides, whose halves have equal numbers; halves of odd numbers end in .5."""
    base = rng.randint(5, 14)
    side = base // 4 + rng.randint(1, 3)  # the sides are longer than the base together
    points = {"B": (0.0, 0.0), "C": (1.2, 0.0), "A": (rng.uniform(0.3, 0.9), 0.95)}
    points |= {
        "D": between(points["A"], points["B"], 0.5),
        "E": between(points["A"], points["C"], 0.5),
    }
    sides = {
        "BC": str(base),
        "DE": "x",
        "AD": str(side),
        "DB": str(side),
        "AE": str(side + 1),
        "EC": str(side + 1),
    }
    figure = Figure(points=points, lines=("AD", "DB", "BC", "AE", "EC", "DE"), sides=sides)
    answer, wrong = _numbers(base / 2, base, 2 * base, base - 1)
    thought = f"base {base}, {base} / 2 = {answer}"
    return Problem(figure=figure, answer=answer, wrong=wrong, thought=thought)


def inscribed(rng: random.Random) -> Problem:
    """The angle on a circle over the same arc as an angle at its centre."""
    a = 10 * rng.randint(5, 14)
    points = {
        "O": (0.0, 0.0),
        "A": on_circle(-90 - a / 2),
        "B": on_circle(-90 + a / 2),
        "C": on_circle(90),
    }
    figure = Figure(
        points=points,
        lines=("AO", "OB", "CA", "CB"),
        circles={"O": 1.0},
        angles={"AOB": str(a), "ACB": "x"},
    )
    answer, wrong = _numbers(a / 2, a, 180 - a, 2 * a)
    thought = f"centre {a}, {a} / 2 = {answer}"
    return Problem(figure=figure, answer=answer, wrong=wrong, thought=thought)


def _right(
    a: float, b: float, sides: tuple[str, str, str], angles: Mapping[str, str] | None = None
) -> Figure:
    """A right triangle with AC = a and BC = b, and the texts of AC, BC and AB."""
    points = {"A": (0.0, float(a)), "B": (float(b), 0.0), "C": (0.0, 0.0)}
    texts = {side: text for side, text in zip(("AC", "BC", "AB"), sides, strict=True) if text}
    return Figure(
        points=points, lines=("AB", "BC", "CA"), angles={"ACB": "", **(angles or {})}, sides=texts
    )


Kind = Callable[[random.Random], Problem]
KINDS: Sequence[Kind] = (
    third_angle,
    linear_pair,
    hypotenuse,
    leg,
    equal_legs,
    sixty,
    middles,
    inscribed,
)
