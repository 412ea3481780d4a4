"""An arithmetic expression that uses each given number once and equals the target."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction

from vlrft.grading import expects
from vlrft.schema import DataError, Sample, Unreadable, explain_unreadable

from .math_answer import answer_text

__all__ = ["countdown", "line"]

MAX_CHARACTERS = 200  # many times as many as an expression of four numbers needs

_ARITHMETIC = re.compile(r"[0-9+\-*/()=\s]+")
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def countdown(completion: str, sample: Sample) -> float | None:
    """1.0 for an expression in the answer tag (or, without a tag, in the last box) that uses each number once and
    equals the target, 0.0 otherwise; None when the gold answer is not `{"nums", "target"}`.

    Whole numbers, + - * / and brackets, computed exactly; `= target` may follow. Raises DataError for a gold answer
    that is not that mapping of whole numbers.
    """
    if not expects(sample, "countdown"):
        return None
    return _score(answer_text(completion), sample)


def _why_no_line(completion: str, sample: Sample) -> Unreadable | None:
    text = _whole_line(completion)
    if text is None:
        return Unreadable(why="more than one line")
    return None if _ARITHMETIC.fullmatch(text) else Unreadable(why="not arithmetic alone")


@explain_unreadable(_why_no_line)
def line(completion: str, sample: Sample) -> float | None:
    """As `countdown`, where the whole completion is the expression: one line, which a full stop may end, without a tag.

    For prompts of plain text that the policy continues.
    """
    if not expects(sample, "countdown"):
        return None
    return _score(_whole_line(completion), sample)


def _whole_line(completion: str) -> str | None:
    text = completion.strip()
    return None if len(text.splitlines()) > 1 else text.removesuffix(".")


def _score(answer: str | None, sample: Sample) -> float:
    numbers, target = _gold(sample)
    if answer is None or len(answer) > MAX_CHARACTERS or not _ARITHMETIC.fullmatch(answer):
        return 0.0
    expression, equals, right = answer.partition("=")
    if equals and right.strip() != str(target):
        return 0.0
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
        return float(sorted(_numbers(tree)) == sorted(numbers) and _value(tree) == target)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return 0.0


def _numbers(tree: ast.expr) -> Iterator[int]:
    """The numbers of the expression. Raises ValueError for a node that is not arithmetic."""
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        yield tree.value
    elif isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        yield from _numbers(tree.left)
        yield from _numbers(tree.right)
    else:
        raise ValueError("not arithmetic")


def _value(tree: ast.expr) -> Fraction:
    if isinstance(tree, ast.BinOp):
        value: Fraction = _OPERATORS[type(tree.op)](_value(tree.left), _value(tree.right))
        return value
    assert isinstance(tree, ast.Constant)
    assert isinstance(tree.value, int)
    return Fraction(tree.value)


def _gold(sample: Sample) -> tuple[list[int], int]:
    gold = sample.answer
    if isinstance(gold, Mapping):
        numbers, target = gold.get("nums"), gold.get("target")
        whole = isinstance(numbers, list) and all(type(n) is int for n in numbers)
        if whole and isinstance(numbers, list) and numbers and type(target) is int:
            return numbers, target
    raise DataError(
        f'sample {sample.id}: gold answer {gold!r} is not {{"nums": [whole numbers], "target": whole number}}'
    )
