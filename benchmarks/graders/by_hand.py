"""Gold answers paired by hand with answers as models write them; no grader decided which are equal.

Pairs on which usage differs are left out (a unit converted, `5 apples` for 5, a letter with its
option's text). The results of each grader are in results/graders.md, which also says which grader was
corrected on these pairs.
"""

from __future__ import annotations

Pairs = dict[str, list[tuple[str, str]]]  # kind -> (gold answer, answer)

EQUAL: Pairs = {
    "intervals": [
        (r"(-\infty, 3) \cup (3, \infty)", r"x \neq 3"),
        (r"[0, \infty)", r"x \geq 0"),
        (r"\left[-\frac{1}{2}, 3\right)", "[-0.5, 3)"),
        (r"(-\infty,-2]\cup[5,\infty)", r"x \le -2 \text{ or } x \ge 5"),
        ("[1,5]", r"1 \leq x \leq 5"),
        ("[2,5]", r"x \ge 2 \text{ and } x \le 5"),
        ("(2,7)", r"\{x \mid 2 < x < 7\}"),
    ],
    "sets": [
        (r"\{-3, 0, 3\}", r"x \in \{0, 3, -3\}"),
        (r"\left\{\frac{1}{2}, 4\right\}", r"\{4, 0.5\}"),
        (r"\{2, 3, 5, 7\}", r"2, 3, 5, \text{ and } 7"),
        (r"\varnothing", r"\{\}"),
    ],
    "matrices": [
        (
            r"\begin{pmatrix} \frac12 & 0 \\ 0 & 2 \end{pmatrix}",
            r"\begin{bmatrix} 0.5 & 0 \\ 0 & 2 \end{bmatrix}",
        ),
        (r"\begin{pmatrix} 3 \\ -1 \end{pmatrix}", r"\begin{pmatrix} 3 \\[4pt] -1 \end{pmatrix}"),
        (
            r"\begin{pmatrix} 3 \\ -1 \end{pmatrix}",
            r"\left(\begin{array}{c} 3 \\ -1 \end{array}\right)",
        ),
    ],
    "coordinates": [
        (r"\left(\frac{3}{2}, -4\right)", "(1.5, -4)"),
        (r"\left(3, \frac{\pi}{2}\right)", r"(r, \theta) = \left(3, \frac{\pi}{2}\right)"),
        ("(2, 5)", "P = (2, 5)"),
        ("(0,1), (3,2)", r"(3, 2) \text{ and } (0, 1)"),
    ],
    "percents": [
        (r"12.5\%", r"\frac{1}{8}"),
        ("20", r"20\%"),
        (r"37.5\%", r"37.5 \text{ percent}"),
        ("0.08", r"8\%"),
    ],
    "money": [
        (r"\$1{,}250", r"\$1250.00"),
        ("45", r"\$45"),
        (r"\$4.50", "4.50"),
        (r"\$12", r"12 \text{ USD}"),
    ],
    "mixed numbers": [
        (r"3\frac{1}{7}", r"\frac{22}{7}"),
        (r"-2\frac{1}{3}", r"-\frac{7}{3}"),
        ("5.25", r"5 \tfrac{1}{4}"),
        (r"2\,\frac{3}{5}", "2.6"),
    ],
    "powers of ten": [
        (r"6.02 \times 10^{23}", "6.02e23"),
        (r"1.6 \times 10^{-19}", r"1.6 \cdot 10^{-19} \text{ C}"),
        ("0.00045", r"4.5 \times 10^{-4}"),
        (r"3.2 \times 10^5", "320{,}000"),
        ("10^6", "1{,}000{,}000"),
    ],
    "words": [
        (r"\text{Thursday}", "Thursday"),
        (r"\text{yes}", "Yes"),
        ("no", r"\text{No}"),
        (r"\text{ellipse}", r"\text{an ellipse}"),
        (r"\text{odd}", r"\mathrm{odd}"),
        (r"\text{undefined}", "undefined"),
        (r"\text{(B)}", r"\textbf{(B)}"),
        (r"\text{(E)}", "E"),
    ],
    "angles": [
        (r"60^\circ", r"60\text{ deg}"),
        (r"\frac{\pi}{4}", r"45^\circ"),
        ("120", r"120^{\circ}"),
        (r"\frac{2\pi}{3}", r"\frac{2}{3}\pi"),
        (r"\frac{\pi}{6}", r"\frac{\pi}{6} \text{ radians}"),
        (r"72^\circ", r"\theta = 72^\circ"),
        (r"\tan 30^\circ", r"\frac{\sqrt{3}}{3}"),
        (r"\frac{\sqrt{3}}{2}", r"\sin(60^\circ)"),
    ],
    "thousands": [
        ("1234567", r"1\,234\,567"),
        ("12{,}500", "12,500"),
        ("86400", r"86\,400 \text{ s}"),
        ("1,000,000", "10^6"),
    ],
    "units": [
        (r"24 \text{ cm}^2", r"24\,\mathrm{cm}^2"),
        (r"24 \text{ cm}^2", r"24 \text{ square centimeters}"),
        (r"9.8 \text{ m/s}^2", r"9.8\ \mathrm{m/s^2}"),
        (r"15 \text{ miles per hour}", r"15 \text{ mph}"),
        (r"45 \text{ mi/hr}", r"45 \text{ miles/hour}"),
        (r"60 \text{ km/h}", "60"),
        (r"6 \text{ square units}", "6"),
        (r"12 \text{ inches}", r"12 \text{ in.}"),
        (r"2 \text{ hours}", r"2 \text{ h}"),
    ],
    "roots": [
        (r"\sqrt[3]{16}", r"2\sqrt[3]{2}"),
        (r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt{2}}{2}"),
        (r"\sqrt[4]{8}", "8^{1/4}"),
        (r"\frac{1+\sqrt{5}}{2}", r"\dfrac{\sqrt5+1}2"),
        (r"\sqrt{2} + \sqrt{3}", r"\sqrt{5+2\sqrt{6}}"),
    ],
    "equations": [
        (r"y = -\frac{2}{3}x + 4", "2x + 3y = 12"),
        ("x = 7", "7"),
        ("(x-2)^2 + (y+1)^2 = 9", "x^2 + y^2 - 4x + 2y - 4 = 0"),
        ("f(x) = 3x - 1", "3x-1"),
        ("a_n = 3n + 2", "3n+2"),
        (r"h = \frac{2A}{b}", r"\frac{2A}{b}"),
        ("12", "AB = 12"),
        ("6", r"S_{\triangle ABC} = 6"),
        ("3.14", r"\approx 3.14"),
    ],
    "plus or minus": [
        (r"\pm 5", "5, -5"),
        (r"x = \pm\sqrt{7}", r"x = \sqrt{7} \text{ or } x = -\sqrt{7}"),
        (
            r"\frac{-1 \pm i\sqrt{3}}{2}",
            r"-\frac12 + \frac{\sqrt3}{2}i, -\frac12 - \frac{\sqrt3}{2}i",
        ),
        ("2, -6", r"-2 \pm 4"),
    ],
    "dates and times": [
        (r"3{:}45 \text{ p.m.}", "3:45 PM"),
        (r"10:15 \text{ a.m.}", r"10:15\text{ AM}"),
        (r"\text{March 14}", "March 14"),
    ],
    "bases": [
        ("1101_2", "1101_{2}"),
        (r"\text{3A}_{16}", "3A_{16}"),
        ("413_5", r"413_{\text{five}}"),
    ],
    "inequalities": [
        ("x > -3", "-3 < x"),
        ("-1 < x < 4", "(-1, 4)"),
        (r"x \le 2", r"(-\infty, 2]"),
        (r"k \geq -\frac{1}{4}", r"4k + 1 \ge 0"),
        ("a < 0", r"a \in (-\infty, 0)"),
    ],
    "expressions": [
        ("x^2 - 5x + 6", "(x-2)(x-3)"),
        (r"\binom{10}{3}", "120"),
        ("7!", "5040"),
        (r"\frac{n(n+1)}{2}", r"\frac{n^2+n}{2}"),
        ("e^{2}", r"\exp(2)"),
        (r"\cos 2x", r"1 - 2\sin^2 x"),
        ("-1", "i^2"),
        (r"\ln 2", r"\log_e 2"),
        (r"\infty", r"+\infty"),
        ("3:4", r"3 \text{ to } 4"),
        ("0.1", ".1"),
        (r"\frac{7}{25}", "0.28"),
    ],
}

UNEQUAL: Pairs = {
    "intervals": [
        ("(1,5]", "[1,5)"),
        (r"(-\infty, 3) \cup (3, \infty)", r"(-\infty, \infty)"),
        (r"[0, \infty)", "x > 0"),
        ("[2,5]", r"x \ge 2 \text{ or } x \le 5"),
    ],
    "sets": [
        (r"\{-3, 0, 3\}", r"\{-3, 3\}"),
        (r"\{2, 3, 5, 7\}", r"\{2, 3, 5, 7, 11\}"),
        (r"\varnothing", r"\{0\}"),
    ],
    "matrices": [
        (
            r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
            r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}",
        ),
        (r"\begin{pmatrix} 3 \\ -1 \end{pmatrix}", r"\begin{pmatrix} 3 & -1 \end{pmatrix}"),
    ],
    "coordinates": [
        (r"\left(\frac{3}{2}, -4\right)", "(-4, 1.5)"),
        ("(2, 5)", "(2, 5, 0)"),
        ("(0,1), (3,2)", "(1,0), (3,2)"),
    ],
    "percents": [
        (r"12.5\%", r"12.5^\circ"),
        ("0.08", r"0.8\%"),
        ("20", r"2000\%"),
    ],
    "money": [
        (r"\$1{,}250", r"\$125"),
        (r"\$4.50", r"4.50 \text{ euros}"),
        ("45", r"\$4.5"),
    ],
    "mixed numbers": [
        (r"3\frac{1}{7}", r"\frac{3}{7}"),
        (r"-2\frac{1}{3}", r"-\frac{5}{3}"),
        (r"2\frac{3}{5}", r"2 \cdot \frac{3}{5}"),
    ],
    "powers of ten": [
        (r"6.02 \times 10^{23}", r"6.02 \times 10^{-23}"),
        (r"6.02 \times 10^{23}", r"6.02 \times 1023"),
        (r"3.2 \times 10^5", "32{,}000"),
    ],
    "words": [
        (r"\text{Thursday}", "Tuesday"),
        (r"\text{yes}", r"\text{no}"),
        (r"\text{odd}", r"\text{neither odd nor even}"),
        (r"\text{ellipse}", "hyperbola"),
        (r"\text{(B)}", "(D)"),
        ("B", "A, B"),
    ],
    "angles": [
        (r"60^\circ", r"60 \text{ rad}"),
        (r"\frac{\pi}{4}", "45"),
        (r"50^\circ", r"\angle A = 130^\circ"),
        (r"50^\circ", r"\angle A + 10^\circ = 50^\circ"),
    ],
    "thousands": [
        ("1234567", "1{,}234{,}576"),
        ("1000", "1.000"),
        ("12{,}500", "12.5"),
    ],
    "units": [
        (r"24 \text{ cm}^2", r"24 \text{ cm}"),
        (r"9.8 \text{ m/s}^2", r"9.8 \text{ m/s}"),
        (r"60 \text{ km/h}", r"60 \text{ mph}"),
        ("6", r"6 \text{ thousand}"),
    ],
    "roots": [
        (r"\sqrt[3]{16}", r"\sqrt{16}"),
        (r"\sqrt[3]{16}", r"3\sqrt{16}"),
        (r"\frac{1+\sqrt{5}}{2}", r"1+\frac{\sqrt{5}}{2}"),
    ],
    "equations": [
        (r"y = -\frac{2}{3}x + 4", r"y = \frac{2}{3}x + 4"),
        (r"y = -\frac{2}{3}x + 4", "2x + 3y = 4"),
        ("(x-2)^2 + (y+1)^2 = 9", "(x+2)^2 + (y-1)^2 = 9"),
        ("f(x) = 3x - 1", "3x+1"),
        ("x = 7", r"x \geq 7"),
        ("x = 7", r"x \neq 7"),
        (r"h = \frac{2A}{b}", r"\frac{2b}{A}"),
        ("12", "AB = 21"),
        ("12", "12 = 21"),
        ("10", "2x = 10"),
        ("10", "x^2 = 10"),
        ("5", "|x| = 5"),
        (r"\pi", r"\approx 3.14"),
        (r"\frac{1}{3}", r"\approx 0.333"),
    ],
    "plus or minus": [
        (r"\pm 5", "5"),
        ("5", r"\pm 5"),
        ("2, -6", r"2 \pm 6"),
    ],
    "dates and times": [
        (r"3{:}45 \text{ p.m.}", "3:45 AM"),
        ("7:30", "7.5"),
        ("10:15", "15:10"),
        (r"\text{March 14}", "March 15"),
    ],
    "bases": [
        ("1101_2", "1011_2"),
        ("413_5", "413_6"),
        ("1101_2", "13"),
    ],
    "inequalities": [
        ("x > -3", "x < -3"),
        ("-1 < x < 4", r"-1 \le x \le 4"),
        (r"k \geq -\frac{1}{4}", r"4k + 1 \le 0"),
    ],
    "expressions": [
        ("x^2 - 5x + 6", "(x+2)(x+3)"),
        (r"\binom{10}{3}", "720"),
        (r"\frac{n(n+1)}{2}", r"\frac{n(n-1)}{2}"),
        (r"\cos 2x", r"2\cos x"),
        (r"\ln 2", r"\log_{10} 2"),
        (r"\infty", r"-\infty"),
        ("3:4", "4:3"),
        (r"\frac{7}{25}", "0.2800001"),
        ("12", "12x"),
    ],
}
