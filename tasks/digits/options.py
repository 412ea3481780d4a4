"""What a config may choose about the scenes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

Subtask = Literal["classify", "count", "relation", "ground"]
SUBTASKS: tuple[Subtask, ...] = ("classify", "count", "relation", "ground")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which sub-tasks, how large, how hard."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    subtasks: tuple[Subtask, ...] = SUBTASKS
    """Scene i asks sub-task i modulo their number; one named twice comes twice as often."""
    canvas: tuple[int, ...] = (112,)
    """Pixels: the widths and heights that a scene's are drawn from."""
    sizes: tuple[int, int] = (44, 56)
    """Pixels: the smallest and the largest side of a digit."""
    grid: int = 1
    """Pixels: digits stand at multiples of it and have sides that are multiples of it; 1:
    anywhere."""
    digits: tuple[int, ...] = tuple(range(10))
    """The digits of `classify`."""
    scene_digits: tuple[int, ...] = tuple(range(10))
    """The digits of the other sub-tasks."""
    distractors: tuple[int, int] = (1, 2)
    """The fewest and the most digits beside those that are asked for, in `count` and `ground`."""
    easy_count: bool = False
    """`count` shows copies of its target only."""
    max_count: int = 4
    """The most copies of the target in `count`."""
    ordered: bool = False
    """`relation` always asks for the smaller digit first."""
    train: int = 6000
    """Scenes of the train split; those of the other two below."""
    validation: int = 1000
    test: int = 2000

    def __post_init__(self) -> None:
        mistakes = "; ".join(self._mistakes())
        if mistakes:
            raise ValueError(mistakes)

    def across(self, length: int) -> int:
        """How many digits fit side by side into so many pixels."""
        return length // self.sides()[-1]

    def cell(self, length: int) -> int:
        """Pixels of a canvas side that each of the digits side by side has to itself."""
        return length // self.across(length) // self.grid * self.grid

    def sides(self) -> range:
        """The sides that a digit may have."""
        smallest, largest = self.sizes
        return range(-(-smallest // self.grid) * self.grid, largest + 1, self.grid)

    def _mistakes(self) -> list[str]:
        if self.grid < 1 or not self.canvas or not 0 < self.sizes[0] <= self.sizes[1]:
            return [
                "grid must be at least 1, canvas not empty, sizes positive, the smaller one first"
            ]
        out: list[str] = []
        if not self.subtasks:
            out.append(f"subtasks is empty; use some of {', '.join(SUBTASKS)}")
        if not self.sides():
            out.append(f"sizes {self.sizes} hold no multiple of grid {self.grid}")
            return out
        across, largest = self.across(min(self.canvas)), self.sides()[-1]
        if across < (1 if set(self.subtasks) == {"classify"} else 2):
            out.append(f"canvas {min(self.canvas)} is too small for digits of {largest} pixels")
        for name in ("digits", "scene_digits"):
            chosen: tuple[int, ...] = getattr(self, name)
            if (
                not set(chosen) <= set(range(10))
                or len(set(chosen)) != len(chosen)
                or len(chosen) < 2
            ):
                out.append(f"{name} must be two or more different digits, not {chosen}")
        low, high = self.distractors
        if not 0 <= low <= high:
            out.append(
                f"distractors {self.distractors}: use a smaller and a larger number from 0 on"
            )
        elif "ground" in self.subtasks and high >= min(across**2, len(self.scene_digits)):
            out.append(f"distractors up to {high}: too many for the canvas or scene_digits")
        if not 1 <= self.max_count <= across**2 and "count" in self.subtasks:
            out.append(f"max_count {self.max_count}: use 1 to {across**2} on this canvas")
        if min(self.train, self.validation, self.test) < 0:
            out.append("train, validation and test are numbers of scenes, from 0 on")
        return out
