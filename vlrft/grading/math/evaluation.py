"""The value of an expression at a point, to a chosen precision. Runs in a worker, see `SandboxedWorker`.

An evaluation also records how far its intermediate values are apart: where they span 2⁻³⁰⁰ … 2⁵⁰, a sum of them needs
350 bits before any of the smallest one is seen.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from math import comb, factorial
from typing import Any

from vlrft.grading.math.expression import Expr

MAX_WORK = 40_000  # of one comparison: an addition at 400 bits is 1, and takes two microseconds
LARGEST = 150_000  # binary logarithm of the largest intermediate value
WIDEST = 1_000_000  # largest argument of a periodic function or a factorial
WIDEST_WHOLE = 10**30  # largest argument of ⌊ ⌋ and ⌈ ⌉
GAMMA_PRECISION = 1_000  # bits beyond which n! of a fraction takes seconds
MAX_COMBINATORIC = 1_000
UNBOUNDED = ("abs", "root", "ln", "log", "min", "max")
_NOISY = ("add", "fn")  # their values may be zero but for rounding, and say nothing of the span
_DISCRETE = ("factorial", "binom")
_GROWING = ("exp", "factorial", "binom")  # functions whose values do


class NoValueError(ArithmeticError):
    """An expression without a value, or with one that is too large."""


class TooMuchWorkError(Exception):
    """A comparison that needs more work than any answer is worth."""


class Work:
    """How much work a comparison may still do; counted, so that the same answers exceed it on every machine."""

    def __init__(self) -> None:
        self.left = MAX_WORK

    def spend(self, amount: int) -> None:
        """Takes the amount off. Raises TooMuchWorkError when there is not so much left."""
        self.left -= amount
        if self.left < 0:
            raise TooMuchWorkError


def arithmetic() -> Any:
    """mpmath's context for numbers of any precision."""
    return importlib.import_module("mpmath").mp  # has no types


class Evaluation:
    """Evaluates expressions at one point, in the context's precision.

    `low` and `high` are the binary logarithms of the smallest and the largest intermediate value; `is_real` tells
    whether all were real.
    """

    def __init__(self, point: Mapping[str, float], work: Work) -> None:
        self._mp = arithmetic()
        self._point = point
        self._work = work
        self._cost = 1 + self._mp.prec**2 // 1_000_000
        self.low = self.high = 0
        self.is_real = True

    def of(self, expr: Expr) -> Any:
        """The expression's value. Raises NoValueError where it has none."""
        mp = self._mp
        kind, *parts = expr
        self._work.spend(self._cost)
        if kind == "num":
            value = mp.mpf(parts[0].numerator) / parts[0].denominator
            self.low = min(self.low, -parts[0].denominator.bit_length())  # 1.4142… has many digits
        elif kind == "sym":
            value = mp.mpf(self._point[parts[0]])
        elif kind == "const":
            value = {"pi": mp.pi, "e": mp.e, "i": mp.j, "infty": mp.inf}[parts[0]] * 1
        elif kind == "add":
            value = sum((self.of(part) for part in parts[1:]), self.of(parts[0]))
        elif kind == "mul":
            value = mp.mpf(1)
            for part in parts:
                value = value * self.of(part)
        elif kind == "pow":
            value = self._power(self.of(parts[0]), self.of(parts[1]))
        elif kind == "deg":
            value = self.of(parts[0]) * mp.pi / 180
        elif kind == "fn":
            value = self._function(parts[0], [self.of(part) for part in parts[1:]])
        else:
            raise NoValueError(kind)
        return self._record(value, kind not in _NOISY or parts[0] in _GROWING)

    def _record(self, value: Any, spans: bool) -> Any:
        mp = self._mp
        if mp.isnan(value):
            raise NoValueError("no number")
        if isinstance(value, mp.mpc):
            if value.imag == 0:
                value = value.real
            else:
                self.is_real = False
        if value == 0 or mp.isinf(value):
            return value
        size = int(mp.mag(value))
        if abs(size) > LARGEST:
            raise NoValueError("too large")
        self.high = max(self.high, size)
        if spans:
            self.low = min(self.low, size)
        return value

    def _power(self, base: Any, exponent: Any) -> Any:
        mp = self._mp
        if base == 0:
            if mp.re(exponent) <= 0:
                raise NoValueError("division by zero")
            return mp.mpf(0)
        if mp.isinf(base) or mp.isinf(exponent):
            raise NoValueError("infinite power")
        if exponent == -1:
            return 1 / base
        size = abs(mp.mag(base))
        if abs(exponent) * (size - 1 if size > 1 else abs(mp.log(base))) > LARGEST:
            raise NoValueError("too large")
        self._work.spend((2 if mp.isint(exponent) else 10) * self._cost)
        return mp.sqrt(base) if exponent == 0.5 else base**exponent

    def _function(self, name: str, values: list[Any]) -> Any:
        mp = self._mp
        self._work.spend((30 if name in _DISCRETE else 10) * self._cost)
        widest = WIDEST_WHOLE if name in ("floor", "ceil") else LARGEST if name == "exp" else WIDEST
        if name not in UNBOUNDED and any(abs(value) > widest for value in values):
            raise NoValueError("too wide")
        if name in ("ln", "log") and values[0] == 0:
            raise NoValueError("logarithm of zero")
        if name in ("min", "max"):
            if any(isinstance(value, mp.mpc) for value in values):
                raise NoValueError("no order")
            return min(values) if name == "min" else max(values)
        if name == "root":
            base, index = values
            turned = not isinstance(base, mp.mpc) and base < 0
            root = self._power(-base if turned else base, 1 / index) if base else base
            return -root if turned else root
        if name == "abs":
            return abs(values[0])
        if name in _DISCRETE:
            return self._discrete(name, values)
        if name in ("floor", "ceil"):
            # A number that is whole but for its last digits is whole.
            nearest = mp.nint(mp.re(values[0]))
            if abs(values[0] - nearest) < mp.mpf(2) ** -(mp.prec // 3):
                return nearest
        return getattr(mp, name)(values[0])

    def _discrete(self, name: str, values: list[Any]) -> Any:
        mp = self._mp
        if all(map(mp.isint, values)) and all(0 <= value <= MAX_COMBINATORIC for value in values):
            whole = [int(value) for value in values]
            if whole != sorted(whole, reverse=True):
                raise NoValueError("k > n")  # n! / k!(n-k)! has none
            return mp.mpf(factorial(*whole) if name == "factorial" else comb(*whole))
        if mp.prec > GAMMA_PRECISION:
            raise NoValueError("too precise a gamma function")
        return mp.factorial(values[0]) if name == "factorial" else mp.binomial(*values)
