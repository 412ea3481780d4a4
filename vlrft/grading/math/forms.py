"""The forms of a mathematical answer.

\\text{Evelyn}            Words("Evelyn")
3\\sqrt{2} cm             Quantity(3·√2, "cm")
x = 5                    Named("x", Quantity(5))
1 \\pm \\sqrt{2}; 1, -2   Many of values in any order
(1, 2]                   Many between brackets, in order
k \\ge 2                  Named("k", Many(2, ∞) between [ and ))
2 + 2 = 4                Chain of 2 + 2 and 4
25/3 \\approx 8.33        Chain of 25/3, rounded to 8.33
5x = 7y                  Relation("=", 5x, 7y)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from vlrft.grading.math.expression import Expr


@dataclass(frozen=True)
class Words:
    """An answer in words, or a choice letter in `\\text{…}`."""

    text: str


@dataclass(frozen=True)
class Quantity:
    """An expression and its unit; "" for none."""

    expr: Expr
    unit: str = ""


@dataclass(frozen=True)
class NamedValue:
    """A value and its name: `x = 5`, `f(x) = 2x`, `x \\in [0, 1)`."""

    name: str
    value: Form


@dataclass(frozen=True)
class Collection:
    """Several values: in order between their brackets, or in any order when `left` is ""."""

    items: tuple[Form, ...]
    left: str = ""
    right: str = ""


@dataclass(frozen=True)
class Chain:
    """Several writings of one value: `2 + 2 = 4`, `25/3 ≈ 8.33`."""

    values: tuple[Quantity, ...]
    rounded: Quantity | None = None
    last_place: Fraction | None = None  # of the rounded value: 1/100 of 8.33; None for no decimal


@dataclass(frozen=True)
class Relation:
    """`left = right`, `left < right`, `left ≤ right` or `left ≠ right`."""

    sign: str
    left: Expr
    right: Expr


Form = Words | Quantity | NamedValue | Collection | Chain | Relation


@dataclass(frozen=True)
class MathAnswer:
    """A text and the forms that it can be read as.

    There are two forms where a letter may be a unit or a symbol, the more likely one first, and none for mathematics
    that the parser does not support.
    """

    text: str  # without typesetting
    literal: str  # its tokens, joined: equal for two answers that are written alike
    forms: tuple[Form, ...]
