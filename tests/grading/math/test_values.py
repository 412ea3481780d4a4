"""Equality by values: expressions with branches, tiny and huge numbers, and the work that a comparison may do."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.grading.math.equality import same
from vlrft.grading.math import evaluation, numeric
from vlrft.grading.math.expression import Expr
from vlrft.grading.math.formula import read_formula
from vlrft.grading.math.notation import tokenize
from vlrft.grading.math.sampling import sample_points

SAME: dict[str, list[str]] = {
    # branches
    "|x-5|": [r"\sqrt{(x-5)^2}", "|5-x|", r"\max(x-5, 5-x)"],
    r"\sqrt{(x-5)^2}": ["|x-5|", r"\sqrt{x^2-10x+25}"],
    r"\lfloor x/100 \rfloor": [r"\lfloor \frac{x}{100} \rfloor", r"-\lceil -\frac{x}{100} \rceil"],
    r"\lfloor x \rfloor": [r"\lfloor x+1 \rfloor - 1"],
    r"\lfloor n/2 \rfloor": [r"\frac{2n - 1 + (-1)^n}{4}"],  # letters j to n in ⌊ ⌋ are whole
    r"\frac{1+(-1)^n}{2}": [r"\cos^2\frac{\pi n}{2}"],
    r"\frac{n(n+1)}{2}": [r"\binom{n+1}{2}", r"\frac{(n+1)!}{2(n-1)!}"],
    r"\sqrt{x^2}": ["x"],  # a symbol is positive unless | | or ⌊ ⌋ occurs
    r"\ln(x^2)": [r"2\ln x"],
    r"\ln(x-5) - \ln(x-7)": [r"\ln\frac{x-5}{x-7}"],
    r"\sqrt{x-5}\sqrt{x-7}": [r"\sqrt{(x-5)(x-7)}"],
    r"\sqrt{1-x^2}": [r"\sqrt{1-x}\sqrt{1+x}", r"\cos(\arcsin x)"],
    r"\sqrt{-x}": [r"\frac{-x}{\sqrt{-x}}"],
    r"\frac{x^2-1}{x-1}": ["x+1"],
    r"\ln(e^x+1)-x": [r"\ln(1+e^{-x})"],
    "x^{x}": [r"e^{x \ln x}"],
    # tiny and huge
    r"\pi 10^{-90}": [r"\frac{\pi}{10^{90}}"],
    r"\sqrt{2} \cdot 10^{150}": [r"\frac{2 \cdot 10^{150}}{\sqrt{2}}"],
    r"\sqrt{2}+\sqrt{3}-\sqrt{5+2\sqrt{6}}": ["0"],
    r"(\sqrt{2}^2-2)\pi": ["0"],
    "-2": [r"\sqrt[3]{2-10}", r"\sqrt[3]{(-2)^3}"],
    r"\sqrt[3]{x}": ["x^{1/3}", r"\frac{x}{\sqrt[3]{x^2}}"],
    "(-1)^{10^{30}}": ["1"],
    "(-1)^{10^{30}+1}": ["-1"],
}

OTHER: dict[str, list[str]] = {
    "|x-5|": ["5-x", "x-5", "|x|-5", "|x+5|"],
    r"\sqrt{(x-5)^2}": ["5-x", "x-5"],
    "|x-5|+|x-6|": ["|2x-11|"],
    r"\lfloor x/100 \rfloor": ["0", r"\lfloor x/200 \rfloor", r"\lceil x/100 \rceil"],
    r"\lfloor 10^{-5}x \rfloor": ["0"],
    r"\lfloor x \rfloor": ["x", "|x|", r"\lceil x \rceil", r"\lceil x \rceil - 1", r"\lfloor x + 0.1 \rfloor"],
    r"\lceil x \rceil": [r"\lfloor x \rfloor + 1"],
    "x": [r"\lfloor x \rfloor", r"\lceil x \rceil", "|x|", r"x + 0 \cdot \frac{1}{0}", r"\min(x, 1000)"],
    "n": [r"\lfloor n \rfloor", r"n + \sin(\pi n)"],
    "0": [r"\sin(\pi n) + 0n!", r"\lfloor \frac{x}{1000} \rfloor", r"10^{-300}", r"\pi 10^{-300}"],
    r"\min(x, 3)": ["x", "3", r"\max(x, 3)"],
    r"|x-y|": ["x-y", "y-x", "|x+y|"],
    r"\sqrt{(x-5)(x-7)}": [r"\sqrt{x-5}\sqrt{x-7}"],  # below 5 the answer is no real number
    r"\ln((x-5)^2)": [r"2\ln(x-5)"],
    r"\arcsin(\sin x)": ["x"],
    "x+1": [r"x+1+\frac{0}{\lfloor x \rfloor - \lfloor x \rfloor}"],
    # tiny and huge
    r"\pi 10^{-90}": [r"\sqrt{2} 10^{-90}", r"2\pi 10^{-90}", "0", r"\pi 10^{-91}"],
    r"\sqrt{2} \cdot 10^{150}": [r"\sqrt{2} \cdot 10^{150} + 1"],
    r"\sqrt{2}": [r"\sqrt{2} + 10^{-50}", r"\sqrt{2} + 10^{-500}", r"\sqrt{2} + \pi^{-200}"],
    "x^2": ["x^2 + 10^{-50}x", "x^2 + 10^{-500}", "x^2 + e^{-700}x"],
    "2^{100000}": ["2^{100000}+1"],
}  # fmt: skip


@pytest.mark.parametrize("gold", SAME)
def test_expressions_of_the_same_value_are_equal(gold: str) -> None:
    assert [answer for answer in SAME[gold] if not same(gold, answer)] == []


@pytest.mark.parametrize("gold", OTHER)
def test_expressions_that_agree_only_in_places_are_not_equal(gold: str) -> None:
    assert [answer for answer in OTHER[gold] if same(gold, answer)] == []


def expression(text: str) -> Expr:
    expr = read_formula(tokenize(text, units=False) or [])
    assert expr is not None
    return expr


def test_points_lie_between_the_constants_that_occur_and_beyond_them_on_both_sides() -> None:
    (points,) = sample_points(expression("|x-7|"), expression("|x-300|"))
    values = sorted(point["x"] for point in points)
    for low, high in [(-1e9, -300), (-300, -7), (-7, 7), (7, 300), (300, 1e9)]:
        assert any(low < value < high for value in values), (low, high)


def test_points_depend_on_the_answer() -> None:
    gold = expression("x")
    first, second = (list(sample_points(gold, expression(text))) for text in ("x+1", "x+2"))
    assert first != second
    assert first == list(sample_points(gold, expression("x+1")))


@pytest.mark.parametrize(
    "answer",
    [
        "+".join([r"\sin x"] * 100),
        "+".join(f"{k}!x" for k in range(60)),
        r"\sin " * 35 + "x",
        "+".join(["x^{x^{2}}"] * 30),
        r"\lfloor x \rfloor + " * 60 + "y",
        r"e^{-900}x+" * 40 + "x",
        r"\binom{x}{y}" * 30,
    ],
    ids=range(7),
)
def test_a_comparison_does_a_bounded_amount_of_work(
    answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[int] = []
    spend = evaluation.Work.spend

    def count(work: evaluation.Work, amount: int) -> None:
        spent.append(amount)
        spend(work, amount)

    monkeypatch.setattr(evaluation.Work, "spend", count)
    expr = expression(answer)
    numeric.are_equal(("mul", expr, ("num", Fraction(1))), expr)
    assert 0 < sum(spent[:-1]) <= evaluation.MAX_WORK
