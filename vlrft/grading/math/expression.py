"""A mathematical expression as a tree of plain tuples.

    3\\sqrt{x} + 1   ("add", ("mul", ("num", 3), ("pow", ("sym", "x"), ("num", 1/2))), ("num", 1))

Kinds: num, const, sym, add, mul, pow, fn, deg and pm. `formula` parses one, `exact` and `numeric` evaluate it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

Expr = tuple[Any, ...]  # (kind, operand, …)


def depth(expr: Expr) -> int:
    """The number of levels of the tree. Without recursion, so of any expression."""
    levels, level = 0, [expr]
    while level:
        levels += 1
        level = [part for node in level for part in node[1:] if isinstance(part, tuple)]
    return levels


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all its parts."""
    nodes = [expr]
    while nodes:
        node = nodes.pop()
        yield node
        nodes += [part for part in node[1:] if isinstance(part, tuple)]


def symbols(expr: Expr) -> set[str]:
    """The names of the symbols in the expression."""
    return {node[1] for node in walk(expr) if node[0] == "sym"}


def inverse(expr: Expr) -> Expr:
    """1 / expr."""
    return ("pow", expr, ("num", Fraction(-1)))


def negative(expr: Expr) -> Expr:
    """−expr."""
    return ("num", -expr[1]) if expr[0] == "num" else ("mul", ("num", Fraction(-1)), expr)


def with_sign(sign: str, expr: Expr) -> Expr:
    """The expression after the sign `+`, `-`, `±` or `∓`."""
    if sign in ("±", "∓"):
        return ("pm", sign, expr)
    return negative(expr) if sign == "-" else expr


INFINITY: Expr = ("const", "infty")
BELOW: Expr = negative(INFINITY)
