"""Signs, marks and commands that say the same: gold answer -> answers equal to it, and answers that are not."""

from __future__ import annotations

import pytest

from tests.grading.math.equality import same

SAME: dict[str, list[str]] = {
    # inverse functions
    r"\arcsin{\frac{10}{13}}": [r"\sin^{-1}\left(\frac{10}{13}\right)", r"\sin^{-1}(10/13)", "arcsin(10/13)"],
    r"\tan^{-1} 2": [r"\arctan 2", r"\operatorname{arctan}(2)", r"\mathrm{arctan}(2)", "atan(2)"],
    r"\cos^{-1}(x)": [r"\arccos x"],
    r"\cot^{-1} 2": [r"\tan^{-1} \frac12"],
    r"\sinh^{-1} x": [r"\ln(x+\sqrt{x^2+1})", r"\operatorname{arsinh}(x)"],
    r"\frac{1}{\sin x}": [r"(\sin x)^{-1}", r"\csc x"],
    r"\sin^2 x": [r"(\sin x)^2", r"1-\cos^2 x"],
    r"\frac{e^x-e^{-x}}{2}": [r"\sinh x"],
    r"f^{-1}(x) = 2x": ["2x", r"f^{-1}(x)=2x"],
    # Unicode
    "1/2": ["1⁄2", "½", "¹⁄₂", "1∕2", r"\nicefrac{1}{2}"],
    "2": ["∛8", "∜16", "√4", "∛{8}", "∛(8)"],
    r"\frac{5}{2}": ["2½", "2 ½"],
    r"\frac78": ["⅞"],
    "x^{12}": ["x¹²", "x^12"],
    "10^{-3}": ["10⁻³", "0.001", "10^-3"],
    "x_1 + x_2": ["x₁ + x₂"],
    "-5": ["−5", "‑5", "–5"],
    "2x": ["2·x", "2×x", "2∙x", "2*x"],
    r"\omega + \Omega": ["ω+Ω"],
    r"\emptyset": ["∅"],
    r"(-\infty,\infty)": [r"\mathbb{R}", "ℝ", r"x \in \mathbb{R}"],
    # money, boxes, texts
    r"$\$ 4$": ["4", r"\$4", "$4", r"4 \text{ dollars}", r"$\$4.00$"],
    r"\boxed{5}": ["5", r"\boxed{5}", r"x = \boxed{5}", r"\fbox{5}"],
    r"$\boxed{\text{east}}$": ["east"],
    "5": ["**5**", r"**\boxed{5}**", r"\boxed{\boxed{5}}", r"\textcolor{red}{5}", r"{\color{red} 5}", r"\underline{5}", r"\left. 5 \right."],
    "12": [r"x = \textbf{12}", r"\text{12}", r"\mathbf{12}", r"\textbf{\textit{12}}", r"\text{12.}"],
    "125": [r"125\textnormal{ miles}", r"\text{125 miles}", r"125\;\textsf{miles}"],
    r"12 \text{ cm}": [r"\text{12 cm}", r"\boxed{12 \text{ cm}}"],
    "1/4": [r"\textbf{1/4}"],
    r"\text{east}": [r"\textnormal{east}", r"\textsf{east}", r"\emph{east}"],
    r"\text{(B)}": [r"\textbf{B}", r"\textnormal{(B)}"],
    "|x|": [r"\left| x \right|", r"\bigl| x \bigr|", r"\lvert x \rvert"],
    r"\frac12": [r"\displaystyle\frac12", r"{\textstyle\frac{1}{2}}"],
}  # fmt: skip

OTHER: dict[str, list[str]] = {
    r"\arcsin{\frac{10}{13}}": [r"\frac{1}{\sin(10/13)}", r"\sin(10/13)", r"\cos^{-1}(10/13)"],
    r"\sin^{-1}(x)": [r"\frac{1}{\sin x}", r"\csc x"],
    r"\sin^{-2}(x)": [r"\arcsin^2 x"],
    r"f^{-1}(x) = 2x": ["f(x) = 2x", r"\frac{x}{2}"],
    "1/2": ["1⁄3", "⅓", "²⁄₁"],
    "2": ["∛9", "∛4", "∜8"],
    r"\frac{5}{2}": ["½2", "2·½"],
    "x^{12}": ["x¹2", "x^1 2"],
    "x_1 + x_2": ["x₁ + x₃"],
    r"$\$ 4$": ["4¢", "€4", r"40 \text{ cents}"],
    r"\boxed{5}": ["6", r"\boxed{6}"],
    "5": [r"\boxed{5} or \boxed{6}", r"\boxed{5}, 6", r"\textcolor{red}{6}", r"\phantom{5}6", r"\phantom{5}"],
    "12": [r"\textbf{12 or 13}", r"\text{12 apples}", r"\text{1}\text{2}", r"\text{12, 13}", r"\text{not 12}"],
    r"(-\infty,\infty)": [r"\mathbb{Z}", r"(-\infty, 0)"],
    r"\text{(B)}": [r"\textbf{A}"],
}  # fmt: skip


@pytest.mark.parametrize("gold", SAME)
def test_another_sign_or_mark_of_the_answer_is_equal(gold: str) -> None:
    assert same(gold, gold)
    assert [answer for answer in SAME[gold] if not same(gold, answer)] == []


@pytest.mark.parametrize("gold", OTHER)
def test_a_sign_or_mark_of_another_answer_is_not_equal(gold: str) -> None:
    assert [answer for answer in OTHER[gold] if same(gold, answer)] == []
