"""Equality of two expressions by their values. Runs in a worker, see `SandboxedWorker`.

Both are evaluated at many points (`sampling`), and must agree at each where the gold expression is real: there needs no
simplification, so no heuristic decides. The precision follows the numbers that occur (`evaluation`), so that an error of
10⁻⁵⁰ is seen and two constants below 10⁻⁸⁰ differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from vlrft.grading.math.evaluation import (
    Evaluation,
    NoValueError,
    TooMuchWorkError,
    Work,
    arithmetic,
)
from vlrft.grading.math.expression import Expr, negative, symbols
from vlrft.grading.math.sampling import sample_points

AGREEING_BITS = 133  # that must be the same, in addition to those of the span: 40 digits
GUARD_BITS = 70  # for errors that functions amplify
PRECISION = 400  # bits, enough for values that are within 2¹⁵ of each other
MAX_PRECISION = 6_000
MIN_REAL = 4  # real points that suffice; with fewer, complex ones count as well
MIN_POINTS = 3
_FAILURES = (ArithmeticError, ValueError, TypeError)


def are_equal(gold: Expr, answer: Expr) -> bool:
    """Whether the expressions have equal values. False where one of them has none, or where it takes too much work."""
    try:
        return all(pair.agrees() for pair in _compare(gold, answer))
    except (NoValueError, TooMuchWorkError):
        return False


def is_near(expr: Expr, value: Fraction, distance: Fraction) -> bool:
    """Whether the expression is real and less than the distance away from the value."""
    far: Expr = ("add", expr, ("num", -value))
    try:
        pair = next(_compare(far, ("num", distance)))
    except (NoValueError, TooMuchWorkError, StopIteration):
        return False
    return bool(arithmetic().im(pair.gold) == 0 and abs(pair.gold) < pair.answer)


def same_relation(sign: str, gold: tuple[Expr, Expr], answer: tuple[Expr, Expr]) -> bool:
    """Whether `left sign right` says the same in both, the sign being one of = ≠ < ≤.

    It does when the differences of the sides are proportional, for an inequality by a positive factor. A relation
    whose difference is constant is true or false for all values of its symbols, as every other one of that kind: then
    its sides must be equal.
    """
    try:
        pairs = list(_compare(_difference(*gold), _difference(*answer)))
    except (NoValueError, TooMuchWorkError):
        return False
    span = max(pair.span for pair in pairs)
    zeros = [pair.is_zero(pair.gold) for pair in pairs]
    if all(zeros) or (not any(zeros) and _is_constant([pair.gold for pair in pairs], span)):
        if not _symbols(gold) >= _symbols(answer):
            return False
        turned = (answer, answer[::-1]) if sign in ("=", "≠") else (answer,)
        return any(all(map(are_equal, gold, sides)) for sides in turned)
    if zeros != [pair.is_zero(pair.answer) for pair in pairs]:
        return False
    ratios = [pair.gold / pair.answer for pair, zero in zip(pairs, zeros, strict=True) if not zero]
    positive = arithmetic().re(ratios[0]) > 0
    return _is_constant(ratios, span) and (positive or sign in ("=", "≠"))


def _symbols(sides: tuple[Expr, Expr]) -> set[str]:
    return symbols(sides[0]) | symbols(sides[1])


def _difference(left: Expr, right: Expr) -> Expr:
    return ("add", left, negative(right))


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """The values of both expressions at one point, and the binary logarithms of the span of their intermediate values
    and of the largest of these."""

    gold: Any
    answer: Any
    span: int
    high: int

    def is_zero(self, value: Any) -> bool:
        """Whether nothing of the value is left but rounding errors."""
        size = arithmetic().mag(value)
        return bool(value == 0 or size < self.high - 3 * self.span - AGREEING_BITS)

    def agrees(self) -> bool:
        mp = arithmetic()
        if mp.isinf(self.gold) or mp.isinf(self.answer):
            return bool(self.gold == self.answer)
        if self.is_zero(self.gold):
            return self.is_zero(self.answer)
        return _are_close(self.gold, self.answer, self.span)


def _are_close(a: Any, b: Any, span: int) -> bool:
    return bool(abs(a - b) <= abs(a) * arithmetic().mpf(2) ** -(span + AGREEING_BITS))


def _is_constant(values: list[Any], span: int) -> bool:
    """Whether the values, none of which is zero, are one real or infinite number."""
    mp = arithmetic()
    first = values[0]
    return mp.im(first) == 0 and all(
        value == first or _are_close(first, value, span) for value in values
    )


def _compare(gold: Expr, answer: Expr) -> Iterator[_Pair]:
    """The values at the points that count. Raises NoValueError where the answer has none, and where there are too few
    such points."""
    work = Work()
    counted = 0
    complex_ones: list[_Pair] = []
    for stage in sample_points(gold, answer):
        if counted >= MIN_REAL:
            return
        for point in stage:
            evaluated = _evaluate(gold, answer, point, work)
            if evaluated is None:
                continue
            pair, is_real = evaluated
            if is_real:
                counted += 1
                yield pair
            else:
                complex_ones.append(pair)
    if counted < MIN_REAL and symbols(gold) | symbols(answer):
        yield from complex_ones
        if counted + len(complex_ones) < MIN_POINTS:
            raise NoValueError("too few points")
    elif counted == 0:
        yield from complex_ones
        if not complex_ones:
            raise NoValueError("no point")


def _evaluate(
    gold: Expr, answer: Expr, point: Mapping[str, float], work: Work
) -> tuple[_Pair, bool] | None:
    """Both values, with as many bits as their intermediate values need, and whether those of the gold expression are
    real; None where the gold expression has no value. Raises NoValueError where only the answer has none."""
    mp = arithmetic()
    with mp.workprec(PRECISION):
        first = Evaluation(point, work)
        try:
            values = [first.of(gold)]
        except _FAILURES:
            return None
        if _bits(first) > MAX_PRECISION:
            return None
        is_real = first.is_real
        try:
            values.append(first.of(answer))
        except _FAILURES as e:
            if is_real:
                raise NoValueError(str(e)) from e
            return None
    bits = _bits(first)
    if bits > MAX_PRECISION:
        raise NoValueError("too wide a span")
    if bits > PRECISION:
        with mp.workprec(bits):
            again = Evaluation(point, work)
            try:
                values = [again.of(gold), again.of(answer)]
            except _FAILURES as e:
                raise NoValueError(str(e)) from e
    pair = _Pair(gold=values[0], answer=values[1], span=first.high - first.low, high=first.high)
    return pair, is_real


def _bits(evaluation: Evaluation) -> int:
    return 4 * (evaluation.high - evaluation.low) + 2 * AGREEING_BITS + GUARD_BITS
