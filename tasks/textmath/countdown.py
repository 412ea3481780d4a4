"""One solution of a Countdown problem: what a gold answer looks like."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

from vlrft.schema import DataError

Part = tuple[Fraction, str]


def solve(numbers: Sequence[int], target: int) -> str:
    """An expression that uses each number once. Raises DataError when there is none."""
    found = _search([(Fraction(n), str(n)) for n in numbers], target)
    if found is None:
        raise DataError(f"no expression of {list(numbers)} equals {target}")
    return found


def _search(parts: list[Part], target: int) -> str | None:
    if len(parts) == 1:
        value, text = parts[0]
        return text if value == target else None
    for i, j in combinations(range(len(parts)), 2):
        rest = [p for k, p in enumerate(parts) if k not in (i, j)]
        for joined in _joined(parts[i], parts[j]):
            found = _search([*rest, joined], target)
            if found is not None:
                return found
    return None


def _joined(one: Part, other: Part) -> list[Part]:
    (a, x), (b, y) = one, other
    out = [
        (a + b, f"({x} + {y})"),
        (a - b, f"({x} - {y})"),
        (b - a, f"({y} - {x})"),
        (a * b, f"({x} * {y})"),
    ]
    out += [(a / b, f"({x} / {y})")] if b else []
    out += [(b / a, f"({y} / {x})")] if a else []
    return out
