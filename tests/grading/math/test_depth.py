"""Nested answers: reading them takes linear work and a bounded part of the stack."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import pytest
from vlrft.rewards.math_answer import math_answer

from vlrft.grading import read_math, same_math
from vlrft.grading.math import answers, brackets, relations
from vlrft.grading.reading import MAX_ANSWER
from vlrft.schema import DataError
from vlrft.testing.small_policies import sample

NESTED = [
    ("(1,", "1", ")"),
    ("[1,", "1", "]"),
    ("{1,", "1", "}"),
    (r"\{1,", "1", r"\}"),
    ("(1;", "1", ")"),
    ("(x=", "1", ")"),
    ("{x=", "1", "}"),
    (r"\{x|x<", "1", r"\}"),
    ("{", "1", "}"),
    ("(", "1", ")"),
    ("|", "1", "|"),
    (r"\frac{1}{1+", "1", "}"),
    (r"\sqrt{", "1", "}"),
    (r"\begin{pmatrix}1\\", "1", r"\end{pmatrix}"),
    (r"\sin ", "1", ""),
    ("2^", "1", ""),
    ("2^-", "1", ""),
    ("-", "1", ""),
    (r"\pm ", "1", ""),
    ("x=", "1", ""),
    ("", "7", "!"),
    ("", "7", "%"),
    ("", "7", r"^\circ"),
    ("", "7", "/2"),
    ("", "7", "'"),
    (r"\text{", "1", "}"),
    (r"\boxed{", "1", "}"),
    (r"5\text{", "m", "/m}"),
    (r"\log_{", "2", "}3"),
    (r"x_{", "2", "}"),
    (r"\vec{", "x", "}"),
    (r"\max(1,", "x", ")"),
]


def nest(opening: str, core: str, closing: str, depth: int) -> str:
    return opening * depth + core + closing * depth


@pytest.fixture
def short_stack() -> Iterator[None]:
    """Leaves 500 frames of Python's stack, half of what a program starts with."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 500)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("short_stack")
@pytest.mark.parametrize("parts", NESTED, ids=lambda parts: parts[0] + parts[2])
def test_nested_text_is_read_or_refused_at_every_depth(parts: tuple[str, str, str]) -> None:
    gold = read_math("6")
    assert gold is not None
    for depth in (1, 2, 4, 8, 12, 16, 32, 39, 41, 64, 128, 256, 512, 1024):
        text = nest(*parts, depth)[:MAX_ANSWER]
        answer = read_math(text)
        assert answer is None or not same_math(gold, answer)


@pytest.mark.parametrize("parts", NESTED, ids=lambda parts: parts[0] + parts[2])
def test_reading_nested_text_takes_linear_work(
    parts: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[int] = []

    def split(tokens: list[str], separators: tuple[str, ...]) -> list[list[str]]:
        scanned.append(len(tokens))
        return brackets.split_top_level(tokens, separators)

    for module in (answers, relations):
        monkeypatch.setattr(module, "split_top_level", split)
    for depth in (2**k for k in range(11)):
        scanned.clear()
        text = nest(*parts, depth)[:MAX_ANSWER]
        read_math(text)
        assert sum(scanned) <= 150 * len(text)


def test_a_nested_answer_earns_nothing_and_a_nested_gold_answer_is_a_defect_of_its_row() -> None:
    nested = nest("(1,", "1", ")", 331)
    assert math_answer(f"<answer>{nested}</answer>", sample("nested", "5")) == 0.0
    assert math_answer(rf"\boxed{{{nested}}}", sample("nested", "5")) == 0.0
    units = "/".join(["m"] * 900)
    assert math_answer(rf"<answer>5\text{{ {units}}}</answer>", sample("units", "5")) == 0.0
    with pytest.raises(DataError, match="sample nested: gold answer"):
        math_answer("<answer>5</answer>", sample("nested", nested))
