"""Parses equations and inequalities: a name and its value where one side is a name, else a relation."""

from __future__ import annotations

from collections.abc import Callable

from vlrft.grading.math.brackets import split_top_level
from vlrft.grading.math.chains import read_chain
from vlrft.grading.math.expression import BELOW, INFINITY, Expr
from vlrft.grading.math.forms import Collection, Form, NamedValue, Quantity, Relation
from vlrft.grading.math.formula import read_formula
from vlrft.grading.math.labels import is_label
from vlrft.grading.math.names import is_length, is_name, name_of
from vlrft.grading.math.quantity import read_quantity

_RELATIONS = ("=", "≈", "<", ">", "≤", "≥", "≠", r"\in")
_EQUAL = ("=", "≈")
MAX_SIDES = 8
_BOTTOM, _TOP = Quantity(BELOW), Quantity(INFINITY)
_FLIP = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}


def read_relation(
    tokens: list[str], read: Callable[[list[str]], Form | None]
) -> tuple[bool, Form | None]:
    """Whether the tokens are a relation, and its form, None if unreadable; `read` parses a side."""
    sides = split_top_level(tokens, _RELATIONS)
    if len(sides) == 1:
        return False, None
    signs = [
        tokens[sum(map(len, sides[:k])) + k - 1] for k in range(1, min(len(sides), MAX_SIDES + 1))
    ]
    if sides[0] == [] and len(sides) == 2 and signs[0] in _EQUAL:
        return True, read(sides[1])  # ≈ 3.14
    if not all(sides) or len(sides) > MAX_SIDES:
        return True, None
    if all(sign in _EQUAL for sign in signs):
        return True, _equation(sides, signs, read)
    if len(sides) == 3:
        return True, _between(sides, signs)
    left, right, sign = sides[0], sides[1], signs[0]
    if len(sides) > 3:
        return True, None
    if sign == r"\in" and is_name(left):
        value = read(right)
        return True, value and NamedValue(name_of(left), value)
    return True, _half_line(left, sign, right) or _relation(left, sign, right)


def _equation(
    sides: list[list[str]], signs: list[str], read: Callable[[list[str]], Form | None]
) -> Form | None:
    """A name and its value, where the first of the sides, or the last of two, is a name; a chain of values; or a
    relation."""
    first, *others = sides
    if len(sides) == 2 and not _names_value(first, others[0]) and _names_value(others[0], first):
        first, others = others[0], [first]
    if is_label(first):
        return read(others[0]) if len(others) == 1 else _equation(others, signs[1:], read)
    if _names_value(first, others[0]):
        value = read(others[0]) if len(others) == 1 else _equation(others, signs[1:], read)
        return value and NamedValue(name_of(first), value)
    chain = read_chain(sides, signs)
    return chain or (_relation(first, "=", others[0]) if len(others) == 1 else None)


def _names_value(side: list[str], value: list[str]) -> bool:
    return is_name(side) or is_length(side, value) or is_label(side)


def _relation(left: list[str], sign: str, right: list[str]) -> Form | None:
    a, b = read_formula(left), read_formula(right)
    if a is None or b is None or sign == r"\in":
        return None
    if sign in (">", "≥"):
        a, b, sign = b, a, _FLIP[sign]
    return Relation(sign, a, b)


def _half_line(left: list[str], sign: str, right: list[str]) -> Form | None:
    """`x ≥ 2` as [2, ∞), `x ≠ 2` as (-∞, 2) ∪ (2, ∞)."""
    if sign not in (*_FLIP, "≠"):
        return None
    if is_name(right) and not is_name(left):
        left, right, sign = right, left, _FLIP.get(sign, sign)
    bound = read_quantity(right)
    if not is_name(left) or bound is None:
        return None
    above = Collection((bound, _TOP), "[" if sign == "≥" else "(", ")")
    below = Collection((_BOTTOM, bound), "(", "]" if sign == "≤" else ")")
    if sign == "≠":
        return NamedValue(name_of(left), _hole(bound))
    return NamedValue(name_of(left), above if sign in (">", "≥") else below)


def _between(sides: list[list[str]], signs: list[str]) -> Form | None:
    """`1 < x ≤ 2` as (1, 2]."""
    low, name, high = sides
    if all(sign in (">", "≥") for sign in signs):
        low, high, signs = high, low, [_FLIP[sign] for sign in reversed(signs)]
    if not is_name(name) or not all(sign in ("<", "≤") for sign in signs):
        return None
    a, b = read_quantity(low), read_quantity(high)
    if a is None or b is None:
        return None
    brackets = "(" if signs[0] == "<" else "[", ")" if signs[1] == "<" else "]"
    return NamedValue(name_of(name), Collection((a, b), *brackets))


def intersect(first: Form | None, second: Form | None) -> NamedValue | None:
    """`x ≥ 2` and `x < 5` as x in [2, 5); None for what is not two half-lines of one name, from both sides."""
    if not isinstance(first, NamedValue) or not isinstance(second, NamedValue):
        return None
    above, below = first.value, second.value
    if isinstance(above, Collection) and len(above.items) == 2 and above.items[0] == _BOTTOM:
        above, below = below, above
    if (
        first.name != second.name
        or not isinstance(above, Collection)
        or not isinstance(below, Collection)
        or len(above.items) != 2
        or len(below.items) != 2
        or above.items[1] != _TOP
        or below.items[0] != _BOTTOM
    ):
        return None
    interval = Collection((above.items[0], below.items[1]), above.left, below.right)
    return NamedValue(first.name, interval)


def as_relation(form: Form) -> Relation | None:
    """`y = 2x` as `y - 2x = 0`, `k ≥ 2` as `2 - k ≤ 0`; None for a form that is no relation."""
    if isinstance(form, Relation):
        return form
    if not isinstance(form, NamedValue):
        return None
    name: Expr = ("sym", form.name)
    value = form.value
    if isinstance(value, Quantity):
        return None if value.unit else Relation("=", name, value.expr)
    if not isinstance(value, Collection) or len(value.items) != 2:
        return None
    low, high = value.items
    if isinstance(low, Collection) and low.items and value == _hole(low.items[-1]):
        bound = low.items[-1]
        return Relation("≠", name, bound.expr) if isinstance(bound, Quantity) else None
    if not isinstance(low, Quantity) or not isinstance(high, Quantity) or low.unit or high.unit:
        return None
    if value.left in ("(", "[") and high.expr == INFINITY:
        return Relation("<" if value.left == "(" else "≤", low.expr, name)
    if value.right in (")", "]") and low.expr == BELOW:
        return Relation("<" if value.right == ")" else "≤", name, high.expr)
    return None


def _hole(bound: Form) -> Collection:
    """(-∞, bound) ∪ (bound, ∞)."""
    below = Collection((_BOTTOM, bound), "(", ")")
    return Collection((below, Collection((bound, _TOP), "(", ")")))
