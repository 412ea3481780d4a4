"""Several writings of one value, `2 + 2 = 4` and `25/3 ≈ 8.33`: parsing them, and what they equal.

As a gold answer, `25/3 ≈ 8.33` takes 25/3 and 8.33. As an answer, all writings must be of the value: `5 = 6` and
`5 ≈ 6` equal nothing. The last may be rounded, if its decimals are right to the last place; it may then equal the gold
answer in place of the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from vlrft.grading.math.comparison import near
from vlrft.grading.math.exact import exact_value
from vlrft.grading.math.expression import symbols
from vlrft.grading.math.forms import Chain, Quantity
from vlrft.grading.math.quantity import read_quantity

SameQuantity = Callable[[Quantity, Quantity], bool]
_DECIMAL = re.compile(
    r"[-+]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[-+]?[0-9]+|\\cdot10\^\{?-?[0-9]+\}?)?"
)


def read_chain(sides: list[list[str]], signs: list[str]) -> Chain | None:
    """The chain; None where a side is no value, contains a symbol, or follows a rounded one."""
    if "≈" in signs[:-1]:
        return None
    values: list[Quantity] = []
    for side in sides:
        value = read_quantity(side)
        if not isinstance(value, Quantity) or symbols(value.expr):
            return None
        values.append(value)
    unit = values[-1].unit
    if unit not in ("%", "°"):
        values = [value if value.unit else replace(value, unit=unit) for value in values]
    if signs[-1] == "=":
        return Chain(tuple(values))
    return Chain(tuple(values[:-1]), values[-1], _last_place(sides[-1], values[-1]))


def same_chain(gold: Quantity | Chain, answer: Quantity | Chain, same: SameQuantity) -> bool:
    """Whether the answer equals the gold answer, at least one of which is a chain; `same` compares two values."""
    golds = gold.values if isinstance(gold, Chain) else (gold,)
    values = answer.values if isinstance(answer, Chain) else (answer,)
    rounded = answer.rounded if isinstance(answer, Chain) else None
    if isinstance(answer, Chain) and rounded is not None and not _is_rounded(answer):
        return False
    if all(same(one, value) for one in golds for value in values):
        return True
    last = gold if isinstance(gold, Quantity) else gold.rounded
    stated = answer if isinstance(answer, Quantity) else rounded
    if last is None or stated is None or not same(last, stated):
        return False
    return all(same(values[0], value) for value in values[1:])


def _is_rounded(chain: Chain) -> bool:
    """Whether the rounded value is the others rounded, or their first decimals."""
    rounded = exact_value(chain.rounded.expr) if chain.rounded else None
    place = chain.last_place
    if rounded is None or place is None:
        return False
    half = place * Fraction(500_001, 1_000_000)
    centres = [rounded] + ([rounded + (half if rounded > 0 else -half)] if place < 1 else [])
    return all(any(near(value.expr, centre, half) for centre in centres) for value in chain.values)


def _last_place(tokens: list[str], value: Quantity) -> Fraction | None:
    """The value of the last digit of a decimal, 1/100 in `8.33` and 100 in `1.2 \\cdot 10^3`; None for no decimal."""
    text = "".join(token for token in tokens if token[0] not in '"%€£').casefold()
    match = _DECIMAL.fullmatch(text.removesuffix(r"^\circ").removesuffix(r"^{\circ}"))
    exact = exact_value(value.expr)
    if match is None or not exact:
        return None
    return abs(exact / Fraction(match[1])) * Fraction(1, 10 ** len(match[1].partition(".")[2]))
