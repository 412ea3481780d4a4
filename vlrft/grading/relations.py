"""Reads equations and inequalities: a name and its value where there is a name, else a relation."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from vlrft.grading.brackets import split
from vlrft.grading.forms import Form, Many, Named, Quantity, Relation
from vlrft.grading.formula import Expr, read_formula
from vlrft.grading.quantity import read_quantity

_RELATIONS = ("=", "<", ">", "≤", "≥", "≠", r"\in")
_FLIP = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}
_INFINITY: Expr = ("const", "infty")


def read_relation(
    reading: list[str], read: Callable[[list[str]], Form | None]
) -> tuple[bool, Form | None]:
    """Whether the tokens are a relation, and what it says if readable; `read` reads a side."""
    sides = split(reading, _RELATIONS)
    signs = [token for token in reading if token in _RELATIONS]
    if len(sides) == 1:
        return False, None
    if len(signs) != len(sides) - 1 or not all(sides) or len(sides) > 3:
        return True, None
    if len(sides) == 3:
        return True, _between(sides, signs)
    left, right, sign = sides[0], sides[1], signs[0]
    if sign in ("=", r"\in") and _is_name(left):
        value = read(right)
        return True, value and Named(name_of(left), value)
    if sign == "=" and _is_name(right) and not _is_name(left):
        value = read(left)
        return True, value and Named(name_of(right), value)
    return True, _half_line(left, sign, right) or _relation(left, sign, right)


def _is_name(side: list[str]) -> bool:
    """`x`, `m_{max}`, `f(x)`, `\\angle ABC`."""
    if side and side[0] in (r"\angle", r"\triangle"):
        return True
    if side and side[0] == "(" and side[-1] == ")" and "," in side:  # (x, y) = (2, 3)
        return all((len(token) == 1 and token.isalpha()) or token == "," for token in side[1:-1])
    letter = side and (
        (len(side[0]) == 1 and side[0].isalpha()) or (side[0][1:].isalpha() and side[0][0] == "\\")
    )
    if not letter or side[0] in (r"\frac", r"\sqrt", r"\pi", r"\infty"):
        return False
    rest = side[1:]
    if rest[:1] == ["_"]:
        rest = rest[rest.index("}") + 1 :] if "{" in rest[:2] and "}" in rest else rest[2:]
    while rest[:1] == ["'"]:
        rest = rest[1:]
    inner = rest[1:-1]
    return not rest or (
        rest[0] == "(" and rest[-1] == ")" and all(t.isalnum() or t == "," for t in inner)
    )


def name_of(side: list[str]) -> str:
    return "".join(token.removeprefix("\\") for token in side if token not in ("{", "}"))


def _relation(left: list[str], sign: str, right: list[str]) -> Form | None:
    a, b = read_formula(left), read_formula(right)
    if a is None or b is None or sign == r"\in":
        return None
    if sign in (">", "≥"):
        a, b, sign = b, a, _FLIP[sign]
    return Relation(sign, ("add", a, ("mul", ("num", Fraction(-1)), b)))


def _half_line(left: list[str], sign: str, right: list[str]) -> Form | None:
    """`x ≥ 2` as [2, ∞)."""
    if sign not in _FLIP:
        return None
    if _is_name(right) and not _is_name(left):
        left, right, sign = right, left, _FLIP[sign]
    bound = read_quantity(right)
    if not _is_name(left) or bound is None:
        return None
    infinity = Quantity(_INFINITY)
    if sign in (">", "≥"):
        return Named(name_of(left), Many((bound, infinity), "(" if sign == ">" else "[", ")"))
    below = Quantity(("mul", ("num", Fraction(-1)), _INFINITY))
    return Named(name_of(left), Many((below, bound), "(", ")" if sign == "<" else "]"))


def _between(sides: list[list[str]], signs: list[str]) -> Form | None:
    """`1 < x ≤ 2` as (1, 2]."""
    low, name, high = sides
    if all(sign in (">", "≥") for sign in signs):
        low, high, signs = high, low, [_FLIP[sign] for sign in reversed(signs)]
    if not _is_name(name) or not all(sign in ("<", "≤") for sign in signs):
        return None
    a, b = read_quantity(low), read_quantity(high)
    if a is None or b is None:
        return None
    brackets = "(" if signs[0] == "<" else "[", ")" if signs[1] == "<" else "]"
    return Named(name_of(name), Many((a, b), *brackets))
