"""Comparisons of expressions: by exact fractions in this process, else by values in a worker with limits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

from vlrft.grading.math.exact import exact_value
from vlrft.grading.math.expression import Expr
from vlrft.grading.math.forms import Relation
from vlrft.grading.math.formula import read_formula
from vlrft.grading.math.notation import tokenize
from vlrft.grading.math.numeric import are_equal, is_near, same_relation
from vlrft.grading.math.sandbox import SandboxedWorker

SECONDS = (
    5.0  # for one comparison; the work is counted as well, and ends most long ones within a second
)
LIBRARIES = ("mpmath:mp",)


@cache
def sandboxed_worker() -> SandboxedWorker:
    """The worker in which this process compares expressions."""
    return SandboxedWorker()


def equal(gold: Expr, answer: Expr) -> bool:
    """Whether the expressions are equal. False where one has no value or exceeds the limits."""
    if gold == answer:
        return True
    exact_gold, exact_answer = exact_value(gold), exact_value(answer)
    if exact_gold is not None and exact_answer is not None:
        return exact_gold == exact_answer
    return _in_worker(are_equal, gold, answer)


def near(expr: Expr, value: Fraction, distance: Fraction) -> bool:
    """Whether the expression is less than the distance away from the value."""
    exact = exact_value(expr)
    if exact is not None:
        return abs(exact - value) < distance
    return _in_worker(is_near, expr, value, distance)


def same(gold: Relation, answer: Relation) -> bool:
    """Whether the relations say the same of their symbols; without symbols, whether their sides are equal."""
    return gold.sign == answer.sign and _in_worker(
        same_relation, gold.sign, (gold.left, gold.right), (answer.left, answer.right)
    )


def equal_formulas(a: str, b: str) -> bool:
    """Whether two plain expressions are equal. Evaluates them in this process: call it in a worker."""
    first, second = (read_formula(tokenize(text, units=False) or []) for text in (a, b))
    return first is not None and second is not None and are_equal(first, second)


def _in_worker(function: Callable[..., bool], *arguments: Any) -> bool:
    return sandboxed_worker().call(function, arguments, SECONDS, LIBRARIES) is True
