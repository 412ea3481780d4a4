"""The exact value of an expression without letters or roots, as a fraction. The fast path of a comparison."""

from __future__ import annotations

from fractions import Fraction
from math import comb, factorial, floor

from vlrft.grading.math.expression import Expr

MAX_BITS = 20_000  # of an intermediate result: 2^1009 and 100! are small, 10^10^10 is refused
MAX_FACTORIAL = 1_000


def exact_value(expr: Expr) -> Fraction | None:
    """The expression's value; None when it has symbols, irrational parts or too large numbers, or divides by zero."""
    kind, *operands = expr
    if kind == "num":
        return operands[0] if isinstance(operands[0], Fraction) else None
    if kind in ("add", "mul"):
        return _combine(kind, operands)
    if kind == "pow":
        base, exponent = exact_value(operands[0]), exact_value(operands[1])
        return None if base is None or exponent is None else _power(base, exponent)
    if kind == "fn":
        values = [exact_value(operand) for operand in operands[1:]]
        exact = [value for value in values if value is not None]
        return _function(operands[0], exact) if len(exact) == len(values) else None
    return None


def _combine(kind: str, operands: list[Expr]) -> Fraction | None:
    total = Fraction(0 if kind == "add" else 1)
    for operand in operands:
        value = exact_value(operand)
        if value is None:
            return None
        total = total + value if kind == "add" else total * value
        if _bits(total) > MAX_BITS:
            return None
    return total


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1 or (base == 0 and exponent <= 0):
        return None
    if _bits(base) * abs(exponent.numerator) > MAX_BITS:
        odd = exponent.numerator % 2 == 1
        return base if base in (0, 1) or (base == -1 and odd) else -base if base == -1 else None
    return Fraction(base**exponent.numerator)


def _function(name: str, values: list[Fraction]) -> Fraction | None:
    whole = all(v.denominator == 1 and 0 <= v <= MAX_FACTORIAL for v in values)
    if name == "abs":
        return abs(values[0])
    if name in ("floor", "ceil"):
        return Fraction(floor(values[0]) if name == "floor" else -floor(-values[0]))
    if name == "factorial" and whole:
        return Fraction(factorial(values[0].numerator))
    if name == "binom" and whole:
        return Fraction(comb(values[0].numerator, values[1].numerator))
    return None


def _bits(value: Fraction) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()
