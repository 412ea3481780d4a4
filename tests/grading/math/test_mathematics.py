"""Gold answer -> answers equal to it, and answers that are not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.grading.math.equality import same
from vlrft.grading import read_math

SAME: dict[str, list[str]] = {
    "140°": [
        "140",
        r"140^\circ",
        r"140^{\circ}",
        "140 degrees",
        r"140\text{ degrees}",
        r"$140^\circ$",
    ],
    "5m": ["5", "5 m", r"5\text{ m}", "5米", "5 meters"],
    "$6m$": ["6m", "$6m$"],
    "√{3}": [r"\sqrt{3}", "√3", "sqrt(3)"],
    "8√{3}": [r"8\sqrt{3}", r"\sqrt{192}", r"\frac{24}{\sqrt{3}}"],
    "65π": [r"65\pi", "65 pi"],
    r"\frac{1}{2}cm²": ["0.5 cm^2", "1/2"],
    "5cm^2^": ["5 cm^2"],
    "16π平方米": [r"16\pi \text{ m}^2", "16π square meters"],
    "(√{3}+1)小时": [r"\sqrt{3}+1", "(1+√3) hours"],
    "58,500": ["58500"],
    r"10,\!080": ["10080"],
    r"11,\! 111,\! 111,\! 100": ["11111111100"],
    "10080": ["10,080", "10{,}080"],
    r"\$32,\!348": ["32348", "$32,348", r"\$32348"],
    r"\$18.90": ["18.9 dollars"],
    r"\$36": ["36"],
    r"1\frac{4}{5}": ["9/5", "1.8"],
    r"137 \frac{1}{2}": ["137.5"],
    "137.5": ["137 1/2"],
    r"\frac43": ["4/3"],
    r"\frac 59": [r"\dfrac{5}{9}"],
    r"\frac9{19}": ["9/19"],
    r"\frac{270}7\text{ degrees}": [r"\frac{270}{7}"],
    r"3 \times 10^{8}": ["3e8", "300000000", "3*10^8"],
    "1e-5": ["10^{-5}", "0.00001"],
    "4.5e33": [r"4.5 \cdot 10^{33}"],
    r"50\%": ["50%", "0.5", "50"],
    "0.5": ["50%"],
    "50": ["50%"],
    "62.5%": [r"\frac{5}{8}"],
    "1,-2": ["-2, 1", r"\{1,-2\}", r"1 \text{ and } -2", "x=1 or x=-2"],
    r"1 \pm \sqrt{19}": [r"1+\sqrt{19}, 1-\sqrt{19}", "1 ± √19"],
    r"\{1\pm\sqrt{5},-2\}": [r"-2,1-\sqrt5,1+\sqrt5"],
    "(6,31,-1)": ["(6, 31, -1)", r"\left(6,31,-1\right)"],
    "(3,4]": [r"3<x\le4", r"x \in (3,4]"],
    r"x \in [-2,7]": [r"-2 \le x \le 7", "[-2,7]"],
    r"(2,\infty)": ["x>2", "(2, ∞)", "(2,infinity)"],
    r"$k \geqslant 2$": [r"[2,\infty)"],
    r"(0,9) \cup (9,36)": [r"(9,36)\cup(0,9)"],
    "x=5": ["5", "x = 5", "5=x"],
    "5": ["x=5"],
    "y = 2x + 3": ["2x+3", "y=3+2x", "2x - y + 3 = 0"],
    "5x - 7y + 11z + 4 = 0": ["-5x+7y-11z-4=0"],
    r"\text{Evelyn}": ["Evelyn", "evelyn", r"\text{Evelyn}"],
    r"\text{(C)}": ["C", "(C)"],
    "C": [r"\text{C}"],
    "2516_8": ["2516_{8}", "2516"],
    "4210_{5}": ["4210_5"],
    r"\begin{pmatrix} -1/3 \\ 2/3 \\ 5/3 \end{pmatrix}": [
        r"\begin{bmatrix} -\frac13 \\ \frac{2}{3} \\ \frac53 \end{bmatrix}"
    ],
    "(a+5)(b+2)": ["ab+2a+5b+10"],
    r"\cot x": [r"\frac{\cos x}{\sin x}", r"\cot(x)"],
    "6+9i": ["9i+6"],
    r"$\binom{2n}{n}$": [r"\frac{(2n)!}{n!^2}"],
    r"$m n-\lfloor m / 2\rfloor$": [r"mn - \lfloor \frac{m}{2} \rfloor"],
    "$2^{1009}$": ["2^1009"],
    r"$\frac{100!}{2^{50}}$": [r"\frac{100!}{2^{50}}"],
    "-2": [r"\sqrt[3]{-8}", r"-\sqrt[3]{8}"],
    r"$\frac{8}{\sqrt[3]{7}}$": [r"8 \cdot 7^{-1/3}"],
    "$1/3$": [r"\frac{1}{3}"],
    r"41.8^\circ": ["41.8"],
    r"1950^\circ C": ["1950 °C", "1950"],
    r"0.003^{\prime \prime}": ["0.003"],
    "-3/2": ["-1.5", r"-\frac{3}{2}", r"\frac{-3}{2}"],
    "025": ["25"],
    "142.0": ["142"],
    r"\sqrt{4 \pi G \rho_{0} r_{0}^{2}}": [r"2 r_0 \sqrt{\pi G \rho_0}"],
    r"864 \mbox{ inches}^2": ["864", "864 square inches"],
    r"15\mbox{ cm}^2": ["15 cm^2"],
    "7": ["7.", "+7"],
    r"5.4 \text{ cents}": ["5.4"],
    "even": [r"\text{even}"],
    r"3\sqrt{13}": [r"3\sqrt 13"],
    r"11\sqrt2": ["11√2"],
    r"\pi": ["pi"],
    "2k": ["2 k"],
    r"$\frac{d !}{2 k(d-k) !}$": [r"\frac{d!}{2k(d-k)!}"],
    r"$2,-\log _{10} 250$": [r"-\log_{10}(250), 2"],
    r"\frac{e^{t}} {3}+c e^{-2 t}": [r"\frac{1}{3}e^t + c e^{-2t}"],
    r"\arcsin{\frac{1}{1.3}}": [r"\arcsin(10/13)"],
    r"$\left\lfloor\log _{2} n\right\rfloor+1$": [r"\lceil \log_2(n+1) \rceil"],
    "$f(x)=x,f(x)=-x$": ["-x, x"],
    "2400, 1350, 864": ["2400,1350,864"],
    r"$(-\infty, 0) \cup\{1\}$.": [r"(-\infty,0) \cup \{1\}"],
    "3:4": ["3:4"],
    r"y^{\prime}+ry-rx(t)=0": ["y' + r y = r x(t)"],
    "0": [r"\sin(\pi)", "0 cm"],
    "90": ["90°"],
    r"\frac{\pi}{3}": ["60°"],
}

SAME |= {
    r"5\text{ m/s}": ["5", "5 m/s"],
    r"\{1,2\}": ["{1,2}", "2, 1"],
    "(2, 3)": ["(x, y) = (2, 3)"],
    "|x|": [r"\sqrt{x^2}"],
    r"\begin{bmatrix}1&2\\3&4\end{bmatrix}": [r"\left(\begin{array}{cc}1&2\\3&4\end{array}\right)"],
    r"\emptyset": [r"\varnothing"],
}

OTHER: dict[str, list[str]] = {
    "|x|": ["x"],
    "2 hours": ["120 minutes"],
    "1.5": ["1,5"],
    "140°": ["140 cm"],
    "5m": ["5 cm", "5 m^2", "500cm"],
    "$6m$": ["6", r"6 \text{ m}"],
    "√{3}": ["3", "1.732"],
    "8√{3}": ["8"],
    "65π": ["65"],
    r"\frac{1}{2}cm²": ["1/2 cm"],
    "(√{3}+1)小时": ["(1+√3) min"],
    r"\$18.90": ["18.9 cents"],
    r"1\frac{4}{5}": ["4/5"],
    r"50\%": ["50°"],
    "0.5": ["0.5%"],
    "50": ["0.5"],
    "1,-2": ["(1,-2)", "1", "1,2"],
    r"1 \pm \sqrt{19}": [r"1+\sqrt{19}"],
    "(6,31,-1)": ["(31,6,-1)"],
    "(3,4]": ["(3,4)"],
    r"x \in [-2,7]": [r"y \in [-2,7]"],
    r"(2,\infty)": [r"(-2,\infty)", r"(2,-\infty)"],
    r"(0,9) \cup (9,36)": ["(0,36)"],
    "x=5": ["y=5"],
    "5x - 7y + 11z + 4 = 0": ["5x-7y+11z=4"],
    r"\text{Evelyn}": ["Evelyn and Navin"],
    r"\text{(C)}": ["D"],
    r"\text{east}": ["seat"],
    "2516_8": ["2516_9"],
    r"\begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix}": [
        r"\begin{pmatrix} -1 & 0 \\ 0 & 1 \end{pmatrix}"
    ],
    "(a+5)(b+2)": ["(a-5)(b+2)"],
    r"\cot x": [r"\tan x"],
    "6+9i": ["6-9i"],
    r"$\frac{100!}{2^{50}}$": [r"\frac{100!}{2^{49}}"],
    "$1/3$": ["0.333"],
    r"1950^\circ C": ["1950 °F"],
    r"15\mbox{ cm}^2": ["15 cm^3"],
    "7": [
        "The answer is 7",
        "7 or 8",
        "7, 8",
        "6 7",
        "7 7",
        "",
        "--7",
        "7\\\\",
        "7 = 8",
        "0 = 0",
        r"7 \text{ or so}",
    ],
    "67": ["6 7"],
    "11": [r"11 \text{ dozen}"],
    r"\pi": ["3.14159265358979323846"],
    "10": ["10^{10^{10}}"],
    r"\frac{1}{2}": [r"\frac{1}{2"],
    r"\frac{\pi}{3}": [r"\frac{\pi}{3}^\circ"],
    "I(0)e^{-t}": ["0"],
    "5": ["5_0", "5 apples", "5!", "five", r"5 \text{ million}", "5;6", r"\boxed{5"],
    "12": ["1 2", "21"],
    "(1,2)": ["1,2", r"\{1,2\}", "(1,2,3)"],
    r"\{1,2\}": ["1", "1,2,2"],
    "0": ["10^{-9}", "x"],
    r"\sqrt{2}": ["1.4142135623730951", r"\sqrt{3}", "2^{0.49}"],
    "x^2+1": ["x^2-1", "x^2+1+10^{-12}"],
    "5x-7y=0": ["0=0", "5x-7y"],
}


@pytest.mark.parametrize("gold", SAME)
def test_another_way_to_write_the_answer_is_equal(gold: str) -> None:
    assert same(gold, gold)
    assert [answer for answer in SAME[gold] if not same(gold, answer)] == []


@pytest.mark.parametrize("gold", OTHER)
def test_a_similar_answer_is_not_equal(gold: str) -> None:
    assert [answer for answer in OTHER[gold] if same(gold, answer)] == []


HOSTILE = [
    "",
    " ",
    "10**10**10",
    "9^{9^{9^9}}",
    "(100000!)!",
    "10!!!!!!",
    "999999999!",
    r"\binom{99999}{50000}",
    r"\binom{10^9}{5*10^8}",
    "e^{e^{e^{e^e}}}",
    r"\sin(10^{100})",
    r"\log(0)",
    "1/0",
    "0^{-1}",
    r"\tan(\pi/2)",
    "10^{-10^{10}}",
    "(1+10^{-9})^{10^{12}}",
    "1e999999",
    "1e-999999",
    r"\frac{1}{" * 500,
    r"\frac{1}{" * 200 + "2" + "}" * 200,
    "{" * 900 + "1" + "}" * 900,
    "(" * 900 + "7" + ")" * 900,
    r"\sqrt" * 300 + "7",
    "2^-" * 300 + "1",
    "2^" * 600 + "1",
    "1+" * 900 + "1",
    "7," * 900 + "7",
    r"\pm 1," * 200 + "1",
    "|" * 1000,
    r"\begin{pmatrix}" * 100,
    r"\begin{pmatrix}1\end{bmatrix}",
    r"\text{" * 300,
    "_" * 500,
    "x_{" * 300,
    "7" + "!" * 1000,
    "7" + "%" * 1000,
    "7" + r"^\circ" * 300,
    "=".join("x" * 500),
    r"\infty-\infty",
    "x^{x^{x^{x^x}}}",
    "((x+1)^{1000})!",
    r"\{\}",
    "(,)",
    "1,,2",
    r"\cup",
    "=",
    "\\",
    "$",
    "\x00",
    "７",
    "٧",
    "__import__('os').abort()",
    "7" * 100_000,
    "(" * 100_000,
    r"\boxed{" * 20_000,
]


@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_answers_never_raise_and_never_score(answer: str) -> None:
    for gold in ("7", "x", r"\sqrt{2}", r"\infty", "(1,2)", "1,2", "x+y=0", "50%", r"\text{seven}"):
        assert not same(gold, answer)


@pytest.mark.parametrize(
    "gold", ["", " ", r"\frac{1}{", "((1)", "1}", "7" * 3000, "\x00", "{" * 100 + "1" + "}" * 100]
)
def test_unreadable_text_has_no_form(gold: str) -> None:
    answer = read_math(gold)
    assert answer is None or answer.forms == ()


SCRAPS = (
    r"1 2 7 12 1.5 1e5 .5 . x y e i m cm \frac \sqrt \binom \log \sin \dot { } ( ) [ ] \{ \} ^ _ + - * / \cdot"
    r" = < \le \in \cup , ; : | ! % \% \$ $ ' \pm \pi \infty \text{ \text{cm} ^\circ ° √ ² & \\ \lfloor \rfloor"
    r" \begin{pmatrix} \end{pmatrix} \begin{array} \end{array} square and 厘米 C \angle \left f(x)"
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(some.lists(some.sampled_from([*SCRAPS.split(" "), " "]), max_size=14).map("".join))
def test_random_notation_neither_raises_nor_is_right(answer: str) -> None:
    assert not same(r"\frac{355}{113}", answer)
    assert not same("a+b=c", answer)
