"""`mathruler` and `dr_grpo` on unusual notation, and `dr_grpo` on answers in a tag: the verdicts of the released code, run with pylatexenc 2.11 and sympy."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest

from vlrft.grading import SandboxedWorker
from vlrft.plugins.find import find_reward, reward_names
from vlrft.testing.small_policies import sample

_released = import_module("vlrft.rewards._released_math")
_mathruler, _dr_grpo = _released._mathruler, _released._dr_grpo
mathruler_form, oat_form = _released.mathruler_form, _released.oat_form
latex_to_text = import_module("vlrft.rewards._latex_text").latex_to_text


@pytest.mark.parametrize(
    ("gold", "answer", "mathruler", "oat"),
    [
        ("A", r"\textbf{A}", 1, 1),
        ("A", r"\textnormal{A}", 1, 1),
        ("A", r"\mathrm{A}", 1, 1),
        ("A", r"\mathbf{A}", 0, 0),  # 𝐀
        ("A", "A.", 0, 0),
        ("Evelyn", r"\textbf{Evelyn}", 1, 1),
        ("12", r"x = \textbf{12}", 0, 0),
        ("125", r"125\textnormal{ miles}", 1, 1),
        ("5 6", "5~6", 0, 0),  # a no-break space
        ("5", r"5~\text{cm}", 1, 1),
        ("5", r"5\,\mathrm{cm}", 1, 1),
        ("1/2", r"\frac{1}2", 1, 1),
        (r"\begin{bmatrix}1\\2\end{bmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}", 1, 1),
        (r"\begin{pmatrix} 3 \\ -1 \end{pmatrix}", r"\begin{pmatrix} 3 \\[4pt] -1 \end{pmatrix}", 1, 1),
        (r"x\leq 5", r"x \le 5", 1, 1),
        ("ab", r"\mbox{ab}", 0, 0),  # \mbox is left out
        ("x=a", "x=t", 0, 1),  # units to oat
        ("a", "t", 0, 0),
        ("6", r"6\text{ units}", 1, 1),
        ("50", r"50\%", 1, 1),
        ("e", "2.718281828459045", 0, 0),
        ("-1", "i^2", 0, 0),
        ("1 1/2", "3/2", 1, 1),
        (r"2\sqrt{3}", r"\sqrt{12}", 1, 1),
        ("(x+1)^2", "x^2+2x+1", 1, 1),
        ("3", "2.9999999999", 1, 1),
        ("1000", "1,000", 1, 1),
        ("1000", "1e3", 1, 1),
        (r"\boxed{5}", "5", 1, 1),
        ("5", "", 0, 0),
        (r"\sqrt", "5", 0, 0),
        (r"\frac1", "5", 0, 0),
    ],
)  # fmt: skip
def test_verdicts_are_those_of_the_released_code(
    gold: str, answer: str, mathruler: int, oat: int
) -> None:
    completion = f"So \\boxed{{{answer}}}."
    assert _mathruler(completion, (gold,)) == mathruler
    assert _dr_grpo(completion, (gold,)) == oat


@pytest.mark.parametrize(
    ("completion", "mathruler", "oat"),
    [
        (r"\boxed{5}", 1, 1),
        (r"\fbox{5}", 0, 0),
        (r"\boxed{5} \fbox{6}", 1, 1),
        (r"\boxed{5} and \boxed", 1, 0),  # oat looks at the last \boxed, with or without braces
        (r"\boxed {5}", 0, 0),
        (r"\boxed{4} \boxed{5", 0, 0),
        (r"\boxed{{5}}", 1, 1),
        ("\\boxed{5}}", 1, 1),
        ("< / \\boxed{ 5 }", 1, 1),
    ],
)
def test_the_last_box(completion: str, mathruler: int, oat: int) -> None:
    assert _mathruler(completion, ("5",)) == mathruler
    assert _dr_grpo(completion, ("5",)) == oat


@pytest.mark.parametrize(
    ("gold", "completion", "score"),
    [
        ("1/2", "so</think> <answer>1/2</answer>", 1),
        ("1/2", "so</think> <answer> 1/2 </answer>", 1),
        ("1/2", "so</think><answer>1/2</answer>", 0),
        ("1/2", "so</think>\n<answer>1/2</answer>", 0),
        ("1/2", "so</think>  <answer>1/2</answer>", 0),
        ("1/2", "so</think> <answer>1/2", 0),
        ("1/2", "</answer> so</think> <answer>1/2", 1),
        ("1/2", r"so</think> <answer>It is $\boxed{\frac{1}{2}}$.</answer>", 1),
        ("1/2", r"so</think> <answer>\boxed{1/2</answer>", 0),
        ("1/2", r"so</think> <answer>\boxed</answer>", 0),
        ("1/2", r"so</think> <answer>\fbox{1/2}</answer>", 1),
        ("1/2", r"so \boxed{1/2}</think> <answer>2</answer>", 0),
        ("1/2", "so</think> <answer>2</answer><answer>1/2</answer>", 1),
        ("1/2", "so</think> <answer>1/2</answer><answer>2</answer>", 0),
        ("1/2", "so</think> <answer>1/2</answer> as I said", 0),
        ("1/2", "</think> <answer> <answer>1/2</answer></answer>", 1),
        ("1/2", "so</think> <answer></answer>", 0),
        ("1/2", "so</think> <answer>x = 1/2</answer>", 1),
        ("1/2", "so</think> <answer>The answer is 1/2</answer>", 0),
        ("5", r"so</think> <answer>5\text{ cm}</answer>", 1),
        ("5", "so</think> <answer>$5$</answer>", 1),
        (r"\boxed{5}", "so</think> <answer>5</answer>", 1),
        ("Evelyn", r"so</think> <answer> \text{Evelyn}</answer>", 1),
        ("(1,2)", "so</think> <answer>(1, 2)</answer>", 1),
        ("x+1", "so</think> <answer>\n1+x\n</answer>", 1),
    ],
)
def test_verdicts_on_an_answer_in_a_tag_are_those_of_the_released_code(
    gold: str, completion: str, score: int
) -> None:
    asked = replace(sample("tag", gold), tags={"answer": "math", "form": "spaced"})
    assert find_reward("math_answer.dr_grpo")(completion, asked) == score
    assert find_reward("math_answer.mathruler")(completion, asked) is None


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\frac\pi2", "π/2"),
        (r"\sqrt[3]{x+1}", "√(x+1)"),
        (r"\sqrt \frac12", "√(1/2)"),
        (r"\unknown{A} \unknown A", "A A"),
        (r"\vec{AB}\mathbb{R}\hat x", "A⃗B⃗ℝx̂"),
        (r"\left\{1,2\right\}", "{1,2}"),
        (r"a\;b\!c\quad d", "a bc d"),
        (r"{a}b}\text{c", "abc"),
        (r"\begin{array}{cc}1&2\\3&4\end{array}", "[ 1 2; 3 4 ]"),
        (r"\begin{cases}x\\y\end{cases}", "x\ny"),
        (r"\begin{pmatrix}1", "[ 1 ]"),
        ("\\", ""),
    ],
)
def test_latex_as_text(latex: str, text: str) -> None:
    assert latex_to_text(latex) == text


@pytest.mark.parametrize("latex", ["\\frac", "\\frac1", "\\sqrt", "\\sqrt[3]", "\\vec"])
def test_a_command_without_its_argument_is_an_error(latex: str) -> None:
    with pytest.raises(ValueError, match="an argument is missing"):
        latex_to_text(latex)


@pytest.mark.parametrize(
    ("text", "mathruler", "oat"),
    [
        (r"\text{5}", "5", "5"),
        (r"\sqrt3", r"\sqrt{3}", r"\sqrt{3}"),
        (r"\frac12x", r"\frac{1}{2}x", r"\frac{1}{2}x"),
        (r"\frac1{72}", r"\frac{1}{72}", r"\frac{1}{72}"),
        (r"\frac{72}1", r"\frac{72}1", r"\frac{72}1"),
        ("3/4", r"\frac{3}{4}", r"\frac{3}{4}"),
        ("03/4", "03/4", "03/4"),
        (".5", r"\frac{1}{2}", r"\frac{1}{2}"),
        ("x=5", "5", "5"),
        ("xyz=5", "xyz=5", "xyz=5"),
        ("5%", "5", "5%"),
        (r"5\text{ cm}", "5", "5"),
        (r"5\text{cm}", r"5\text{cm}", "5"),
        (r"5\text{ a} \text{ b}", r"5\text{ a} \text{ b}", "5"),
        (r"\sqrt", r"\sqrt", r"\sqrt"),
        (r"\frac1", r"\frac1", r"\frac1"),
        ("", "", ""),
    ],
)
def test_math_normal_forms(text: str, mathruler: str, oat: str) -> None:
    assert mathruler_form(text) == mathruler
    assert oat_form(text) == oat


def test_a_text_longer_than_any_policy_writes_is_not_handed_to_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        SandboxedWorker, "call", lambda self, function, arguments, *rest: asked.append(1)
    )
    limit = import_module("vlrft.rewards._math_verify").MAX_CHARACTERS
    graders = [name for name in reward_names() if name.partition(".")[0] == "math_answer" != name]
    for name in graders:
        for size in (limit, limit + 1):
            assert find_reward(name)(" " * size, sample("seven", "7")) == 0.0
    assert len(asked) == len(graders) == 6
