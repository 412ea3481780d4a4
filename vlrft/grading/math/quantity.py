"""Parses a value with its unit."""

from __future__ import annotations

from vlrft.grading.math.expression import Expr, negative
from vlrft.grading.math.forms import Collection, Quantity
from vlrft.grading.math.formula import read_formula
from vlrft.grading.math.units import split_unit


def read_quantity(tokens: list[str]) -> Quantity | Collection | None:
    """The value that the tokens form, or two values for ±; None when they form none."""
    body, unit = split_unit(tokens)
    expr = read_formula(body)
    if expr is None:
        return None
    while expr[0] == "deg" and not unit:
        expr, unit = expr[1], "°"
    plus, minus = _signs(expr, "±"), _signs(expr, "∓")
    if plus != minus:
        return Collection((Quantity(plus, unit), Quantity(minus, unit)))
    return Quantity(plus, unit)


def _signs(expr: Expr, positive: str) -> Expr:
    """The expression with the sign `positive`, ± or ∓, as + and the other one as -."""
    if expr[0] == "pm":
        inner = _signs(expr[2], positive)
        return inner if expr[1] == positive else negative(inner)
    return tuple(_signs(part, positive) if isinstance(part, tuple) else part for part in expr)
