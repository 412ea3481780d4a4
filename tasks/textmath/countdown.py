"""A solver of Countdown problems, for their gold answers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

from vlrft.schema import DataError

Part = tuple[Fraction, str]


def solve(numbers: Sequence[int], target: int) -> str:
    """An expression that uses each number once and equals the target. Raises DataError if there is none."""
    expression = _search([(Fraction(n), str(n)) for n in numbers], target)
    if expression is None:
        raise DataError(f"no expression of {list(numbers)} equals {target}")
    return expression


def _search(parts: list[Part], target: int) -> str | None:
    if len(parts) == 1:
        value, text = parts[0]
        return text if value == target else None
    for i, j in combinations(range(len(parts)), 2):
        rest = [p for k, p in enumerate(parts) if k not in (i, j)]
        for combined in _combine(parts[i], parts[j]):
            expression = _search([*rest, combined], target)
            if expression is not None:
                return expression
    return None


def _combine(one: Part, other: Part) -> list[Part]:
    (a, x), (b, y) = one, other
    results = [
        (a + b, f"({x} + {y})"),
        (a - b, f"({x} - {y})"),
        (b - a, f"({y} - {x})"),
        (a * b, f"({x} * {y})"),
    ]
    results += [(a / b, f"({x} / {y})")] if b else []
    results += [(b / a, f"({y} / {x})")] if a else []
    return results
