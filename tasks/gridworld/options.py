"""Options of the grid worlds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from vlrft.schema.ranges import Natural, Positive, Range


@dataclass(frozen=True, kw_only=True)
class Options:
    """The rooms, and the rules of an episode."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    size: Annotated[int, Range(ge=2)] = 3
    """Cells a side."""
    walls: Natural = 2
    """Cells of a room that cannot be entered."""
    least: Positive = 1
    """The smallest distance of the goal, in moves."""
    cell: Annotated[int, Range(ge=8)] = 28
    """Pixels a side of a cell; 28 is one image token of Qwen2-VL."""
    max_steps: Positive = 6
    """Turns after which an episode ends; also the largest distance of the goal, in moves."""
    context: Literal["rebuilt", "growing"] = "rebuilt"
    """rebuilt: each turn is a separate prompt and training row; growing: one row contains the pictures of all turns."""
    train: Natural = 800
    """Rooms of the train split; `test`: of the test split. No room is in both."""
    test: Natural = 200
    """Rooms of the test split."""

    def __post_init__(self) -> None:
        if self.walls + 2 > self.size**2 // 2:
            raise ValueError(
                f"{self.walls} walls leave no room to move in {self.size} x {self.size} cells"
            )
        if self.least > self.max_steps:
            raise ValueError(f"least: {self.least} moves, more than max_steps {self.max_steps}")
        if self.least > self.size:
            raise ValueError(f"least: {self.least} moves, more than the size {self.size}")
