"""Options of the grid worlds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True, kw_only=True)
class Options:
    """The rooms, and the rules of an episode."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    size: int = 3
    """Cells a side."""
    walls: int = 2
    least: int = 1
    """The smallest distance of the goal, in moves."""
    cell: int = 28
    """Pixels a side of a cell; 28 is one image token of Qwen2-VL."""
    max_steps: int = 6
    """Turns after which an episode ends; also the largest distance of the goal, in moves."""
    context: Literal["rebuilt", "growing"] = "rebuilt"
    """rebuilt: each turn is a separate prompt and training row; growing: one row contains the pictures of all turns."""
    train: int = 800
    """Rooms of the train split; `test`: of the test split. No room is in both."""
    test: int = 200

    def __post_init__(self) -> None:
        for name, least in (("size", 2), ("walls", 0), ("least", 1), ("cell", 8), ("max_steps", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: {getattr(self, name)}, must be at least {least}")
        if self.walls + 2 > self.size**2 // 2:
            raise ValueError(
                f"{self.walls} walls leave no room to move in {self.size} x {self.size} cells"
            )
        if self.least > self.max_steps:
            raise ValueError(f"least: {self.least} moves, more than max_steps {self.max_steps}")
        if self.least > self.size:
            raise ValueError(f"least: {self.least} moves, more than the size {self.size}")
