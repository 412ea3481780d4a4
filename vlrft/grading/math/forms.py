"""The forms of a mathematical answer.

\\text{Evelyn}            Words("Evelyn")
3\\sqrt{2} cm             Quantity(3·√2, "cm")
x = 5                    Named("x", Quantity(5))
1 \\pm \\sqrt{2}; 1, -2   Many of values in any order
(1, 2]                   Many between brackets, in order
k \\ge 2                  Named("k", Many(2, ∞) between [ and ))
5x - 7y = 0              Relation("=", 5x - 7y)
"""

from __future__ import annotations

from dataclasses import dataclass

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
class Relation:
    """`expr = 0`, `expr < 0`, `expr ≤ 0` or `expr ≠ 0`."""

    sign: str
    expr: Expr


Form = Words | Quantity | NamedValue | Collection | Relation


@dataclass(frozen=True)
class MathAnswer:
    """A text and the forms that it can be read as.

    There are two forms where a letter may be a unit or a symbol, the more likely one first, and none for mathematics
    that the parser does not support.
    """

    text: str  # without typesetting
    literal: str  # its tokens, joined: equal for two answers that are written alike
    forms: tuple[Form, ...]
