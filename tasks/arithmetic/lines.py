"""Questions with two numbers and a result, and their division into splits by the two numbers."""

from __future__ import annotations

import hashlib
import operator
import random
from dataclasses import dataclass

SMALLEST = 2
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
NAMES = {"+": "sum", "-": "difference", "*": "product"}


@dataclass(frozen=True, kw_only=True)
class Line:
    """A question and the calculation that answers it; the larger number comes first."""

    numbers: tuple[int, int]
    operation: str

    @property
    def result(self) -> int:
        return int(OPERATIONS[self.operation](*self.numbers))

    @property
    def question(self) -> str:
        larger, smaller = self.numbers
        return f"{larger} and {smaller} make {self.result}:"

    @property
    def calculation(self) -> str:
        larger, smaller = self.numbers
        return f"{larger} {self.operation} {smaller}"


SOLVED = (
    Line(numbers=(9, 6), operation="+"),
    Line(numbers=(7, 4), operation="*"),
    Line(numbers=(20, 13), operation="-"),
    Line(numbers=(25, 11), operation="+"),
    Line(numbers=(16, 5), operation="*"),
    Line(numbers=(28, 10), operation="-"),
)


def split_lines(split: str, largest: int) -> list[Line]:
    """The questions of a split, in a fixed order that mixes numbers and operations."""
    shown = {line.numbers for line in SOLVED}
    pairs = [
        (a, b)
        for a in range(SMALLEST, largest + 1)
        for b in range(SMALLEST, a)
        if (a, b) not in shown and _held_out(a, b) == (split == "test")
    ]
    lines = [Line(numbers=pair, operation=sign) for pair in pairs for sign in OPERATIONS]
    random.Random(f"arithmetic {split}").shuffle(lines)
    return lines


def _held_out(a: int, b: int) -> bool:
    """Whether questions with these two numbers are in the test split: one pair in five, by its hash, whatever the options."""
    return hashlib.sha256(f"{a} {b}".encode()).digest()[0] % 5 == 0
