"""Whether two expressions are one, by their values: runs in a worker, see `SandboxedWorker`.

Constants are compared to 40 digits; expressions with symbols at several points, whose coordinates
are positive (so that √x² is x) unless | | is about, and whole when floors or factorials are. That needs no simplification, so no
heuristic decides, and two different analytic expressions do not agree at eight points by accident.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from random import Random
from typing import Any

from vlrft.grading.math.expression import Expr

DIGITS = 60  # of working precision
AGREED = 40  # digits that must be the same
POINTS = 8
LARGEST = 100_000  # natural logarithm of the largest number on the way
DISCRETE = ("floor", "ceil", "factorial", "binom")  # they speak of whole numbers
WIDEST = 1_000_000  # argument of a periodic or discrete function


class Unbounded(ArithmeticError):
    """A value that is too large to hold, or none at all."""


def agree(a: Expr, b: Expr) -> bool:
    """Whether the expressions have the same values. False where one of them has none."""
    return bool(_proportion(a, b) == 1)


def proportional(a: Expr, b: Expr) -> int:
    """The sign of the constant c ≠ 0 with a = c·b, 0 when there is none: that `a = 0` and `b = 0`
    are one equation, and for +1 `a < 0` and `b < 0` one inequality."""
    ratio = _proportion(a, b)
    return 0 if ratio is None else 1 if ratio > 0 else -1


def _proportion(a: Expr, b: Expr) -> Any:
    """The constant a / b, to 40 digits 1 when they agree; None when it is not constant."""
    mp = _mpmath()
    names = sorted(_symbols(a) | _symbols(b))
    whole = _uses(a, DISCRETE) or _uses(b, DISCRETE)
    low = -3.0 if _uses(a, ("abs",)) or _uses(b, ("abs",)) else 0.5
    random = Random(20_250_917)
    first: Any = None
    for _ in range(POINTS if names else 1):
        point = {
            name: mp.mpf(random.randint(2, 40)) if whole else mp.mpf(random.uniform(low, 3.0))
            for name in names
        }
        try:
            values = _Values(mp, point)
            ratio = _ratio(mp, values.of(a), values.of(b))
        except (ArithmeticError, ValueError, TypeError):
            return None
        if first is None:
            first = ratio
        if ratio is None or abs(ratio - first) > abs(first) * mp.mpf(10) ** -AGREED:
            return None
    if abs(mp.im(first)) > abs(first) * mp.mpf(10) ** -AGREED:
        return None
    return 1 if abs(first - 1) <= mp.mpf(10) ** -AGREED else mp.re(first)


def _ratio(mp: Any, a: Any, b: Any) -> Any:
    """a / b; 1 for two zeros or two equal infinities, None when only one is zero."""
    tiny = mp.mpf(10) ** -AGREED
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
    """The value of expressions at one point. Raises ArithmeticError where there is none."""

    def __init__(self, mp: Any, point: Mapping[str, Any]) -> None:
        self._mp = mp
        self._point = point

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
                value = self._held(value * self.of(part))
        elif kind == "pow":
            value = self._power(self.of(parts[0]), self.of(parts[1]))
        elif kind == "deg":
            value = self.of(parts[0]) * mp.pi / 180
        elif kind == "fn":
            value = self._function(parts[0], [self.of(part) for part in parts[1:]])
        else:
            raise Unbounded(kind)
        return self._held(value)

    def _held(self, value: Any) -> Any:
        mp = self._mp
        if mp.isnan(value):
            raise Unbounded("no number")
        if not mp.isinf(value) and value != 0 and abs(mp.mag(value)) > LARGEST:
            raise Unbounded("too large")
        return value

    def _power(self, base: Any, exponent: Any) -> Any:
        mp = self._mp
        if base == 0:
            if mp.re(exponent) <= 0:
                raise Unbounded("division by zero")
            return mp.mpf(0)
        if mp.isinf(base) or mp.isinf(exponent):
            raise Unbounded("infinite power")
        if abs(mp.log(base)) * abs(exponent) > LARGEST:
            raise Unbounded("too large")
        return base**exponent

    def _function(self, name: str, values: list[Any]) -> Any:
        mp = self._mp
        widest = mp.inf if name in ("abs", "ln", "log") else LARGEST if name == "exp" else WIDEST
        if any(abs(value) > widest for value in values):
            raise Unbounded("too wide")
        if name in ("ln", "log") and values[0] == 0:
            raise Unbounded("logarithm of zero")
        if name == "abs":
            return abs(values[0])
        if name == "binom":
            return mp.binomial(*values)
        if name in ("floor", "ceil"):
            # What is whole but for the last digits is whole.
            nearest = mp.nint(mp.re(values[0]))
            if abs(values[0] - nearest) < mp.mpf(10) ** -AGREED:
                return nearest
        return getattr(mp, name)(values[0])
