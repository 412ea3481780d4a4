"""Options of the scenes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from vlrft.schema.ranges import Natural, Positive, Range

Side = Annotated[int, Range(ge=1, le=4096)]  # pixels
Digit = Annotated[int, Range(ge=0, le=9)]
Subtask = Literal["classify", "count", "relation", "ground", "product", "product_steps"]
SUBTASKS: tuple[Subtask, ...] = (
    "classify",
    "count",
    "relation",
    "ground",
    "product",
    "product_steps",
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The sub-tasks, the size of the scenes, and their difficulty."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    subtasks: tuple[Subtask, ...] = SUBTASKS[:4]
    """Scene i is of sub-task i modulo their number; one that is listed twice occurs twice as often. `product` and
    `product_steps`, which asks for the steps before the answer, have the same scenes."""
    canvas: tuple[Side, ...] = (112,)
    """Pixels: the sides from which the width and the height of a scene are drawn."""
    sizes: tuple[Side, Side] = (44, 56)
    """Pixels: the smallest and the largest side of a digit."""
    grid: Positive = 1
    """Pixels: positions and sides of digits are multiples of it; 1: no restriction."""
    digits: tuple[Digit, ...] = tuple(range(10))
    """The digits of `classify`."""
    scene_digits: tuple[Digit, ...] = tuple(range(10))
    """The digits of the other sub-tasks."""
    distractors: tuple[Natural, Natural] = (1, 2)
    """The fewest and the most digits in addition to those that the question is about, in `count` and `ground`."""
    easy_count: bool = False
    """`count` shows copies of its target only."""
    max_count: Positive = 4
    """The most copies of the target in `count`."""
    factors: tuple[Positive, Positive] = (2, 4)
    """The fewest and the most digits to multiply, in `product` and `product_steps`."""
    ordered: bool = False
    """`relation` always asks for the smaller digit first."""
    train: Natural = 6000
    """Scenes of the train split; `validation` and `test`: of the others."""
    validation: Natural = 1000
    """Scenes of the validation split."""
    test: Natural = 2000
    """Scenes of the test split."""

    def __post_init__(self) -> None:
        mistakes = "; ".join(self._mistakes())
        if mistakes:
            raise ValueError(mistakes)

    def across(self, length: int) -> int:
        """The number of digits that fit side by side into `length` pixels."""
        return length // self.sides()[-1]

    def cell(self, length: int) -> int:
        """Pixels of the cell of each digit along a canvas side of `length` pixels."""
        return length // self.across(length) // self.grid * self.grid

    def sides(self) -> range:
        """The possible sides of a digit, in pixels."""
        smallest, largest = self.sizes
        return range(-(-smallest // self.grid) * self.grid, largest + 1, self.grid)

    def _mistakes(self) -> list[str]:
        if not self.canvas or self.sizes[0] > self.sizes[1]:
            return ["canvas must not be empty, and the smaller one of sizes comes first"]
        mistakes: list[str] = []
        if not self.subtasks:
            mistakes.append(f"subtasks is empty; use some of {', '.join(SUBTASKS)}")
        if not self.sides():
            mistakes.append(f"sizes {self.sizes} contain no multiple of grid {self.grid}")
            return mistakes
        across, largest = self.across(min(self.canvas)), self.sides()[-1]
        if across < (1 if set(self.subtasks) == {"classify"} else 2):
            mistakes.append(
                f"canvas {min(self.canvas)} is too small for digits of {largest} pixels"
            )
        for name in ("digits", "scene_digits"):
            digits: tuple[int, ...] = getattr(self, name)
            if len(set(digits)) != len(digits) or len(digits) < 2:
                mistakes.append(f"{name} must be two or more different digits, not {digits}")
        low, high = self.distractors
        if low > high:
            mistakes.append(f"distractors {self.distractors}: the smaller number comes first")
        elif "ground" in self.subtasks and high >= min(across**2, len(self.scene_digits)):
            mistakes.append(f"distractors up to {high}: too many for the canvas or scene_digits")
        if self.max_count > across**2 and "count" in self.subtasks:
            mistakes.append(f"max_count {self.max_count}: use 1 to {across**2} on this canvas")
        fewest, most = self.factors
        products = {"product", "product_steps"}.intersection(self.subtasks)
        if products and not 2 <= fewest <= most <= across**2:
            mistakes.append(f"factors {self.factors}: two numbers in order, from 2 to {across**2}")
        return mistakes
