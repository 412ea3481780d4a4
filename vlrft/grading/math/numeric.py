"""Equality of two expressions by their values. Runs in a worker, see `SandboxedWorker`.

Constants are compared to 40 digits. Expressions with symbols are compared at several points, whose coordinates are
positive (so that √x² is x) unless | | occurs, and whole where floors or factorials occur. That needs no simplification,
so no heuristic decides, and two different analytic expressions do not agree at eight points by accident.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from random import Random
from typing import Any

from vlrft.grading.math.expression import Expr

DIGITS = 60  # working precision
AGREEING_DIGITS = 40  # digits that must be the same
POINTS = 8
LARGEST = 100_000  # natural logarithm of the largest intermediate result
DISCRETE = ("floor", "ceil", "factorial", "binom")  # functions of whole numbers
WIDEST = 1_000_000  # largest argument of a periodic or discrete function


class NoValueError(ArithmeticError):
    """An expression without a value, or with one that is too large."""


def are_equal(a: Expr, b: Expr) -> bool:
    """Whether the expressions have equal values. False where one of them has none."""
    return bool(_proportion(a, b) == 1)


def proportion_sign(a: Expr, b: Expr) -> int:
    """The sign of the constant c ≠ 0 with a = c·b; 0 when there is none.

    When it is not 0, `a = 0` and `b = 0` are the same equation; when it is 1, `a < 0` and `b < 0` the same inequality.
    """
    ratio = _proportion(a, b)
    return 0 if ratio is None else 1 if ratio > 0 else -1


def _proportion(a: Expr, b: Expr) -> Any:
    """a / b when it is constant, exactly 1 when it is 1 to 40 digits; None when it is not constant."""
    mp = _mpmath()
    names = sorted(_symbols(a) | _symbols(b))
    whole = _uses(a, DISCRETE) or _uses(b, DISCRETE)
    low = -3.0 if _uses(a, ("abs",)) or _uses(b, ("abs",)) else 0.5
    random = Random(20_250_917)
    first: Any = None
    for _ in range(POINTS if names else 1):
        as_point = {
            name: mp.mpf(random.randint(2, 40)) if whole else mp.mpf(random.uniform(low, 3.0))
            for name in names
        }
        try:
            values = _Values(mp, as_point)
            ratio = _ratio(mp, values.of(a), values.of(b))
        except (ArithmeticError, ValueError, TypeError):
            return None
        if first is None:
            first = ratio
        if ratio is None or abs(ratio - first) > abs(first) * mp.mpf(10) ** -AGREEING_DIGITS:
            return None
    if abs(mp.im(first)) > abs(first) * mp.mpf(10) ** -AGREEING_DIGITS:
        return None
    return 1 if abs(first - 1) <= mp.mpf(10) ** -AGREEING_DIGITS else mp.re(first)


def _ratio(mp: Any, a: Any, b: Any) -> Any:
    """a / b; 1 for two zeros or two equal infinities, None when only one of the two is zero."""
    tiny = mp.mpf(10) ** -AGREEING_DIGITS
    if mp.isinf(a) or mp.isinf(b):
        return mp.mpf(1) if a == b else None
    if abs(a) < tiny and abs(b) < tiny and (a == 0 or b == 0 or abs(a - b) < tiny * tiny):
        return mp.mpf(1)
    return None if a == 0 or b == 0 else a / b


def _symbols(expr: Expr) -> set[str]:
    if expr[0] == "sym":
        return {expr[1]}
    return set().union(*(_symbols(part) for part in expr[1:] if isinstance(part, tuple)))


def _uses(expr: Expr, names: tuple[str, ...]) -> bool:
    if expr[0] == "fn" and expr[1] in names:
        return True
    return any(_uses(part, names) for part in expr[1:] if isinstance(part, tuple))


def _mpmath() -> Any:
    mpmath = importlib.import_module("mpmath")  # has no types
    mpmath.mp.dps = DIGITS
    return mpmath.mp


class _Values:
    """Evaluates expressions at one point. Raises ArithmeticError where an expression has no value."""

    def __init__(self, mp: Any, as_point: Mapping[str, Any]) -> None:
        self._mp = mp
        self._point = as_point

    def of(self, expr: Expr) -> Any:
        mp = self._mp
        kind, *parts = expr
        if kind == "num":
            value = mp.mpf(parts[0].numerator) / parts[0].denominator
        elif kind == "sym":
            value = self._point[parts[0]]
        elif kind == "const":
            value = {"pi": +mp.pi, "e": +mp.e, "i": mp.mpc(0, 1), "infty": mp.inf}[parts[0]]
        elif kind == "add":
            value = sum((self.of(part) for part in parts[1:]), self.of(parts[0]))
        elif kind == "mul":
            value = mp.mpf(1)
            for part in parts:
                value = self._check_size(value * self.of(part))
        elif kind == "pow":
            value = self._power(self.of(parts[0]), self.of(parts[1]))
        elif kind == "deg":
            value = self.of(parts[0]) * mp.pi / 180
        elif kind == "fn":
            value = self._function(parts[0], [self.of(part) for part in parts[1:]])
        else:
            raise NoValueError(kind)
        return self._check_size(value)

    def _check_size(self, value: Any) -> Any:
        mp = self._mp
        if mp.isnan(value):
            raise NoValueError("no number")
        if not mp.isinf(value) and value != 0 and abs(mp.mag(value)) > LARGEST:
            raise NoValueError("too large")
        return value

    def _power(self, base: Any, exponent: Any) -> Any:
        mp = self._mp
        if base == 0:
            if mp.re(exponent) <= 0:
                raise NoValueError("division by zero")
            return mp.mpf(0)
        if mp.isinf(base) or mp.isinf(exponent):
            raise NoValueError("infinite power")
        if abs(mp.log(base)) * abs(exponent) > LARGEST:
            raise NoValueError("too large")
        return base**exponent

    def _function(self, name: str, values: list[Any]) -> Any:
        mp = self._mp
        widest = mp.inf if name in ("abs", "ln", "log") else LARGEST if name == "exp" else WIDEST
        if any(abs(value) > widest for value in values):
            raise NoValueError("too wide")
        if name in ("ln", "log") and values[0] == 0:
            raise NoValueError("logarithm of zero")
        if name == "abs":
            return abs(values[0])
        if name == "binom":
            return mp.binomial(*values)
        if name in ("floor", "ceil"):
            # A number that is whole but for its last digits is whole.
            nearest = mp.nint(mp.re(values[0]))
            if abs(values[0] - nearest) < mp.mpf(10) ** -AGREEING_DIGITS:
                return nearest
        return getattr(mp, name)(values[0])
