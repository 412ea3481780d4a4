"""Relations without symbols, several writings of one value, and rounded values."""

from __future__ import annotations

import pytest

from tests.grading.math.equality import same

SAME: dict[str, list[str]] = {
    r"\frac{25}{3} \approx 8.33": [
        r"\frac{25}{3}", "8.33", r"\frac{25}{3} \approx 8.33", r"25/3 ≈ 8.3", r"x = \frac{25}{3} \approx 8.333", "25/3",
        r"8\frac13", r"\approx 8.33",
    ],
    r"\frac{25}{3}": [r"\frac{25}{3} \approx 8.33", r"\frac{50}{6} = \frac{25}{3} \approx 8.3", r"x = 25/3 \approx 8.33"],
    "8.33": [r"\frac{25}{3} \approx 8.33"],
    r"\pi \text{ cm}": [r"\pi \approx 3.14 \text{ cm}", r"\pi \text{ cm} \approx 3.1416 \text{ cm}"],
    r"x = \sqrt{2} \approx 1.41": [r"\sqrt{2}", "1.41", r"x = \sqrt{2}", r"x \approx 1.41"],
    r"1.2 \times 10^3 \pi \approx 3.77 \times 10^3": [r"1200\pi", r"3770"],
    "7": ["3+4=7", "x = 3+4 = 7", "7 = 3 + 4", r"\frac{14}{2} = 7"],
    "2+2=4": ["4=2+2", "2+2=4", "4"],
    "3>2": ["2<3", "3 > 2", "6/2 > 2"],
    r"1 \neq 2": [r"2 \ne 1"],
    "x+1=x+1": ["x+1=x+1", "1+x = x+1"],
    r"\sin^2 x + \cos^2 x = 1": [r"1 = \cos^2 x + \sin^2 x"],
    "y = 2x": ["2x", "2y = 4x", "y-2x=0"],
    "x=y=5": ["5", "x=5"],
    r"|x| = x": [r"x = |x|", r"2|x| = 2x"],
}  # fmt: skip

OTHER: dict[str, list[str]] = {
    r"\frac{25}{3} \approx 8.33": ["1=2", "8.34", r"25/3 \approx 9", r"8.33 = \frac{25}{3}", r"9 \approx 8.33", "8.3"],
    r"\frac{25}{3}": [
        r"8 \approx \frac{25}{3}", r"\frac{25}{3} \approx 8.5", r"\frac{25}{3} = 8.33", r"\approx 8.33", r"25/3 = 9",
        r"8.33 \approx 25/3", r"25/3 \approx 8.33 \approx 8", r"25/3 \approx 5 \cdot 2", r"\frac{25}{3} \approx",
    ],
    "8": [r"9 \approx 8", r"\frac{25}{3} = 8"],
    r"\pi \text{ cm}": [r"\pi \approx 3.14 \text{ m}"],
    r"\pi": [r"\frac{22}{7} \approx 3.14", r"3.14 \approx \pi"],
    "7": ["7=8", "8=7", "0=0", "3+4=7=8", "7>6", r"7 \ne 8", "7=7=6", "=".join(["7"] * 20)],
    "2+2=4": ["0=0", "1=1", "5=2+3", "4=5", "2", r"2+2 \ne 4"],
    "3>2": ["1<2", "3<2", "2>3", "3", "2", r"3 \ge 2", "4>3"],
    r"1 \neq 2": [r"1 \neq 3", "1=2"],
    "0=0": ["1=1", "x=x"],
    "x+1=x+1": ["x=x", "0=0"],
    r"\sin^2 x + \cos^2 x = 1": ["1=1", "0=0", "x=x", r"2 = 2\sin^2 x + 2\cos^2 x"],
    "x < x+1": ["1<2", "x<x+2", "0<1"],
    "y = 2x": ["0=0", "y-2x", "4y = 2x", "0(y-2x)=0", r"\frac{y-2x}{0}=0"],
    "x=y=5": ["6", "x=6"],
    "x=5": ["2x=10", "x-5=0", "x+2=7", "2x = 2 * 5"],  # not solved for x
    r"|x| = x": ["x = x", "0 = 0", "|x| = -x"],
}  # fmt: skip


@pytest.mark.parametrize("gold", SAME)
def test_writings_of_the_same_value_or_relation_are_equal(gold: str) -> None:
    assert same(gold, gold)
    assert [answer for answer in SAME[gold] if not same(gold, answer)] == []


@pytest.mark.parametrize("gold", OTHER)
def test_other_relations_and_values_are_not_equal(gold: str) -> None:
    assert [answer for answer in OTHER[gold] if same(gold, answer)] == []
