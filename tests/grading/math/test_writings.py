"""Notations of numbers, names, points, units, sets and words: gold answer -> answers equal to it, and answers that are
not."""

from __future__ import annotations

import pytest

from tests.grading.math.equality import same

SAME: dict[str, list[str]] = {
    # numbers
    r"2.\overline{3}": [r"\frac{7}{3}", "7/3", r"2.\bar{3}", r"2.\dot3", r"2\frac13", r"2.3\overline{3}"],
    "7/3": [r"2.\overline{3}"],
    "4/33": [r"0.\overline{12}", r".\overline{12}"],
    "-1/6": [r"-0.1\overline{6}"],
    r"33\frac{1}{3}\%": [r"33.\overline{3}\%", r"0.\overline{3}"],
    r"3.5\bar{x}": [r"\frac{7\bar{x}}{2}"],
    r"4+3\mathrm{i}": ["4+3i", r"3\text{i}+4"],
    "4+3i": [r"4+3\mathrm{i}"],
    "2ke^2": [r"2\mathrm{k}\mathrm{e}^2"],
    "3.14": [r"\approx 3.14", r"x \approx 3.14", "≈3.14"],
    # names
    r"30^\circ": [r"m\angle ABC = 30^\circ", r"\measuredangle ABC = 30^\circ", r"∠ABC = 30°"],
    r"m\angle ABC = 30^\circ": [r"30^\circ", r"\angle CBA = 30", r"m\angle{ABC} = 30°"],
    r"\angle BEA_{1} = 90": [r"\angle A_1EB = 90^\circ"],
    "12": ["AB = 12", r"\overline{AB} = 12", "|AB| = 12", r"12 = AB"],
    "AB = 12": ["BA = 12", "12"],
    "AB = CD": ["CD = AB"],
    r"(3, \frac{\pi}{2})": [r"(r, \theta) = (3, \frac{\pi}{2})"],
    # points
    "(3,-2)": ["x=3, y=-2", "y = -2, x = 3", r"x=3 \text{ and } y=-2", "x_1 = 3, x_2 = -2"],
    "x=3, y=-2": ["(3,-2)", "3, -2", "(x,y) = (3,-2)", "(y,x) = (-2,3)", "y=-2, x=3"],
    "(x,y) = (3,-2)": ["x=3, y=-2", "(3,-2)"],
    "3, -2": ["x=3, y=-2", "x_1 = -2, x_2 = 3", "x = -2 or x = 3"],
    # units
    r"9.8 \text{ m/s}^2": [r"9.8\ \mathrm{m/s^2}", r"9.8\ \mathrm{m}/\mathrm{s}^2", "9.8 m/s^2"],
    r"15 \text{ miles per hour}": ["15 mph", "15 miles per hour", r"15\text{ mi/h}", "15"],
    "20": [r"20\%"],
    "3+2m": ["2m+3", "2m + 3", r"3+2m, m \in \mathbb{Z}"],
    "5-2m^2": ["-2m^2+5"],
    "(x+1)m": ["m(x+1)", "mx + m"],
    r"(10+5\sqrt{3})m": [r"10+5\sqrt3", r"(10+5\sqrt3) \text{ m}", "(10+5√3) meters"],
    r"3+2\text{ m}": ["5", "5 m", "5 meters"],
    "-5m": ["-5", "-5 meters"],
    "3*10^-3 m": ["0.003", r"3 \cdot 10^{-3}\text{ m}"],
    "5 m": ["5 Meters", r"5\text{ Meters}"],
    "20°C": ["20 degrees Celsius", "20 Celsius"],
    "3 Volts": ["3", "3 volts"],
    r"4\text{ sec}": ["4", "4 sec", "4 seconds", r"4\text{s}"],
    "4": ["4 sec", r"4\ \mathrm{sec}"],
    r"9.8\ \mathrm{m}/\mathrm{sec}^2": [r"9.8 \text{ m/s}^2", "9.8 m/sec^2"],
    r"\sec 2x": [r"\frac{1}{\cos 2x}", "sec(2x)"],
    # functions
    r"\lg 2": [r"\log_{10} 2", r"\frac{\ln 2}{\ln 10}"],
    r"\lg 1000": ["3"],
    r"\lg^2 100": ["4"],
    "120": ["5!=120", "(2+3)!=120"],
    # sets, inequalities, matrices
    r"\varnothing": [r"\{\}", r"\{ \}"],
    r"\{100,200\}": [r"\{200,100\}", r"\{100, 200\}", r"\left\{200,100\right\}", "200, 100"],
    r"\langle 100,200 \rangle": [r"\langle 100, 200 \rangle"],
    "(2,7)": [r"\{x \mid 2 < x < 7\}", r"\{x : 2 < x < 7\}"],
    r"(-\infty, 3) \cup (3, \infty)": [r"x \neq 3", r"3 \ne x", "x!=3", "x != 3"],
    r"x \ne 3": [r"2x \ne 6", r"(3,\infty) \cup (-\infty,3)"],
    r"k \geq -\frac14": [r"4k+1 \ge 0", r"0 \le 4k + 1"],
    "x < 2": ["-x > -2"],
    r"\begin{pmatrix} 3 \\ -1 \end{pmatrix}": [r"\begin{pmatrix} 3 \\[4pt] -1 \end{pmatrix}"],
    "3:4": [r"3 \text{ to } 4", "3 to 4", "3{:}4"],
    # words
    r"\text{March 14}": ["March 14", "march 14"],
    r"3{:}45 \text{ p.m.}": ["3:45 PM", "3:45 pm", "03:45 p.m."],
    "Zoë": [r"\text{Zoë}", "zoë"],
    "größer": ["Größer", r"\text{größer}"],
    "нет": ["Нет"],
    r"\text{ellipse}": ["an ellipse", r"\text{the ellipse}"],
}  # fmt: skip

OTHER: dict[str, list[str]] = {
    "7/3": [r"2.\overline{34}", r"2.3\overline{4}", r"2\overline{3}", r"2.\overline{3}5", "2.333"],
    "1/3": [r"0.\overline{3}5^2", r"\approx 0.333", r"0.\overline{x}"],
    "3.5": [r"3.5\bar{x}"],
    "4+3i": [r"4+3\mathrm{j}", r"4+3\mathrm{m}", r"4-3\mathrm{i}"],
    r"\pi": [r"\approx 3.14"],
    "3": ["=3=", "= 4", "="],
    r"50^\circ": [r"\angle A + 10^\circ = 50^\circ", r"\angle A \cdot \angle B = 50^\circ"],
    r"m\angle ABC = 30^\circ": [r"m\angle ACB = 30^\circ", r"m\angle ABC = 31^\circ"],
    "12": ["AB + 1 = 12", "2AB = 12", "AB^2 = 12", "AB = 21", "2x = 12"],
    "AB = 12": ["AC = 12"],
    "(3,-2)": ["x=-2, y=3", "y=3, x=-2", "x=3", "x=3, x=-2", "x=3, y=-2, z=1"],
    "x=3, y=-2": ["-2, 3", "(-2,3)", "(x,y) = (-2,3)", "(y,x) = (3,-2)", "x=-2, y=3"],
    "3, -2": ["x=-2, y=3"],
    r"5 \text{ m/s}": [r"5\ \mathrm{m}/\mathrm{s}^2", r"5\ \mathrm{m/s^2}", "5 m/s^2"],
    "60 mph": [r"60 \text{ km/h}", "60 kph"],
    "20": [r"2000\%", r"0.2\%"],
    "5 m": ["5 Feet", "5 METERS CUBED"],
    "20°C": ["20 degrees Fahrenheit"],
    "3+2m": ["5", "5 m", "3-2m"],
    "5": ["3+2m", "3+2m^2", r"3+2\frac{m}{s}", r"3 \pm 2m"],
    r"2\text{ m}": ["2xm", "xm"],
    r"4\text{ sec}": ["4 min", "5 sec"],
    r"\lg 2": [r"\ln 2", r"\log 2", r"\log_2 2"],
    r"\{100,200\}": ["100200", r"\{100200\}"],
    r"\varnothing": [r"\{0\}"],
    "(2,7)": [r"\{y \mid 2 < x < 7\}", r"\{x \mid 2 < x \le 7\}"],
    r"x \ne 3": ["x = 3", r"2x \ne 5", "x > 3"],
    r"k \geq -\frac14": [r"4k+1 \le 0", "4k+1 > 0"],
    "x < 2": ["-x < -2"],
    "3:4": [r"4 \text{ to } 3", "3"],
    r"\text{March 14}": ["March 15", "March", "14"],
    r"3{:}45 \text{ p.m.}": ["3:45 AM", "3:54 pm"],
    r"\text{(C)}": ["A C", "the D"],
    r"\text{east}": ["the west"],
    "нет": ["да"],
    "Zoë": ["Zoe"],
}


@pytest.mark.parametrize("gold", SAME)
def test_another_notation_of_the_answer_is_equal(gold: str) -> None:
    assert same(gold, gold)
    assert [answer for answer in SAME[gold] if not same(gold, answer)] == []


@pytest.mark.parametrize("gold", OTHER)
def test_a_similar_answer_is_not_equal(gold: str) -> None:
    assert [answer for answer in OTHER[gold] if same(gold, answer)] == []


HOSTILE = [
    r"0.\overline{" * 300,
    r"0.\overline{" + "3" * 1900 + "}",
    r"\overline{3}",
    r".\overline",
    "2.",
    ".",
    r"\\[" * 600,
    "\\\\" + " " * 1900 + "[",
    "abc, " * 390,
    "abc 1" * 390,
    "3:" + " " * 1900 + "p",
    ",".join(f"x_{k}={k}" for k in range(250)),
    "(" + ",".join("x" * 900) + ")=1",
    "m" + r"\angle " * 270,
    r"\angle ABC_" * 150,
    r"\{x|" * 400 + r"\}" * 400,
    "=" * 1900,
    "m/" * 900,
]


@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_notations_never_raise_and_never_score(answer: str) -> None:
    for gold in ("7", r"2.\overline{3}", "(1,2)", "x=1, y=2", "AB=1", r"\text{seven}", "x > 2"):
        assert not same(gold, answer)
