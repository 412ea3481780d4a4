"""A mathematical expression as a tree of plain tuples.

    3\\sqrt{x} + 1   ("add", ("mul", ("num", 3), ("pow", ("sym", "x"), ("num", 1/2))), ("num", 1))

Kinds: num, const, sym, add, mul, pow, fn, deg and pm. `formula` reads one, `exact` and `numeric` evaluate it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

Expr = tuple[Any, ...]  # (kind, operand, …)


def inverse(found: Expr) -> Expr:
    return ("pow", found, ("num", Fraction(-1)))


def negative(found: Expr) -> Expr:
    return ("num", -found[1]) if found[0] == "num" else ("mul", ("num", Fraction(-1)), found)


def is_negative(found: Expr) -> bool:
    """By how it is written: −8, −x."""
    return (found[0] == "num" and found[1] < 0) or found[:2] == ("mul", ("num", Fraction(-1)))


def with_sign(sign: str, found: Expr) -> Expr:
    if sign in ("±", "∓"):
        return ("pm", sign, found)
    return negative(found) if sign == "-" else found
