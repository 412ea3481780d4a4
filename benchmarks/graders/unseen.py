"""Further pairs by hand on which no grader in vlrft has been corrected: for measuring only.

A pair that a grader gets wrong stays here. Whoever corrects a grader for a pair moves the pair to
by_hand.py and writes a new one.
"""

from __future__ import annotations

from benchmarks.graders.by_hand import Pairs

EQUAL: Pairs = {
    "intervals": [
        (r"(-\infty, -1) \cup (4, \infty)", r"x < -1 \text{ or } x > 4"),
        (r"\left(0, \frac{\pi}{2}\right]", r"0 < \theta \leq \frac{\pi}{2}"),
        ("[-3, 3]", r"|x| \le 3"),
        (r"\left(-\infty, \frac{5}{2}\right)", r"\{x : x < 2.5\}"),
    ],
    "coordinates": [
        ("(4, -1, 7)", "x = 4, y = -1, z = 7"),
        (r"\left(\frac{1}{3}, 2\right)", r"a = \frac{1}{3}, \; b = 2"),
        (r"(-5, 0)", r"\left(x, y\right) = \left(-5, 0\right)"),
    ],
    "numbers": [
        (r"0.\overline{27}", r"\frac{3}{11}"),
        (r"\frac{8}{9}", r"0.\overline{8}"),
        (r"\$3{,}456.70", r"3456.70 \text{ dollars}"),
        (r"4\tfrac{2}{3}", r"\tfrac{14}{3}"),
        (r"2.5 \times 10^{-3}", r"0.0025"),
        (r"40\%", r"\frac{2}{5}"),
        ("73{,}500", r"7.35 \times 10^{4}"),
        ("0.6", "60%"),
    ],
    "units": [
        (r"5 \text{ N}", r"5\,\mathrm{N}"),
        (r"3.0 \times 10^8 \text{ m/s}", r"3 \times 10^{8}\ \mathrm{m \cdot s^{-1}}"),
        (r"64 \text{ cubic inches}", r"64 \text{ in}^3"),
        (r"48 \text{ ft}^2", r"48 \text{ sq ft}"),
        (r"90 \text{ minutes}", r"90 \text{ min}"),
    ],
    "geometry": [
        (r"115^\circ", r"\angle DEF = 115^\circ"),
        (r"4\sqrt{2}", r"BC = 4\sqrt{2} \text{ cm}"),
        (r"\frac{3}{5}", r"\sin A = \frac{3}{5}"),
        (r"27\pi", r"V = 27\pi \text{ cm}^3"),
        (r"45^\circ", r"x = 45^\circ"),
    ],
    "algebra": [
        (r"\frac{-3 \pm \sqrt{17}}{4}", r"x = \frac{-3 + \sqrt{17}}{4}, x = \frac{-3 - \sqrt{17}}{4}"),
        ("x = 3y - 6", "3y - x = 6"),
        (r"y = \frac{x}{2} - 1", "x - 2y - 2 = 0"),
        ("2 + 5i", r"2 + 5 \cdot i"),
        (r"3^{n} - 1", r"3 \cdot 3^{n-1} - 1"),
        (r"\log_3 5", r"\frac{\ln 5}{\ln 3}"),
        (r"\sqrt[3]{-8}", "-2"),
        (r"(x+1)^3", "x^3 + 3x^2 + 3x + 1"),
        (r"m > 2", r"m \in (2, +\infty)"),
    ],
    "words": [
        (r"\text{Tuesday}", r"\text{tuesday}"),
        (r"\text{no solution}", "no solution"),
        (r"\text{(A)}", "A."),
        (r"\text{infinitely many}", "Infinitely many"),
        (r"8{:}20 \text{ a.m.}", r"8:20 \text{ AM}"),
        (r"\text{June 5}", r"\text{June 5}"),
    ],
}  # fmt: skip

UNEQUAL: Pairs = {
    "intervals": [
        (r"(-\infty, -1) \cup (4, \infty)", r"-1 < x < 4"),
        ("[-3, 3]", r"|x| < 3"),
        (r"\left(-\infty, \frac{5}{2}\right)", r"\{x : x \le 2.5\}"),
        (r"(-\infty, 2) \cup (2, \infty)", r"x \ne -2"),
    ],
    "coordinates": [
        ("(4, -1, 7)", "x = 4, y = 7, z = -1"),
        (r"\left(\frac{1}{3}, 2\right)", r"a = 2, b = \frac{1}{3}"),
        ("(-5, 0)", "x = -5"),
        ("3", "x = 3, y = 3"),
    ],
    "numbers": [
        (r"0.\overline{27}", "0.27"),
        (r"\frac{8}{9}", r"0.8\overline{9}"),
        (r"0.1\overline{6}", r"0.\overline{16}"),
        ("150", r"15000\%"),
        (r"4\tfrac{2}{3}", r"\tfrac{42}{3}"),
        ("73{,}500", r"7.35 \times 10^{5}"),
        ("40", r"\pm 40"),
    ],
    "units": [
        (r"5 \text{ N}", r"5 \text{ J}"),
        (r"64 \text{ in}^3", r"64 \text{ in}^2"),
        (r"90 \text{ minutes}", r"90 \text{ seconds}"),
        (r"12 \text{ km/h}", r"12 \text{ m/s}"),
        (r"12 \text{ km/h}", r"12 \text{ km}"),
    ],
    "geometry": [
        (r"115^\circ", r"\angle DEF + \angle DFE = 115^\circ"),
        (r"115^\circ", r"2\angle DEF = 115^\circ"),
        ("6", r"AB \cdot BC = 6"),
        ("6", r"\frac{AB}{BC} = 6"),
        ("6", "AB > 6"),
    ],
    "algebra": [
        (r"\frac{-3 \pm \sqrt{17}}{4}", r"\frac{-3 + \sqrt{17}}{4}"),
        ("x = 3y - 6", "3y + x = 6"),
        ("2 + 5i", r"2 + 5\mathrm{e}"),
        (r"\log_3 5", r"\log_5 3"),
        (r"\sqrt{5}", "2.236"),
        ("m > 2", r"m \geq 2"),
        ("7", "x + 7"),
        ("7", "x^2 = 7"),
        ("8", "3x = 8"),
    ],
    "words": [
        (r"\text{no solution}", "one solution"),
        (r"\text{(A)}", "A, C"),
        (r"8{:}20 \text{ a.m.}", r"8:20 \text{ PM}"),
        (r"\text{June 5}", r"\text{July 5}"),
        (r"\text{June 5}", "5"),
    ],
}  # fmt: skip
