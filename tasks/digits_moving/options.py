"""Options of the videos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from vlrft.schema.ranges import Natural, Positive, Range

Side = Annotated[int, Range(ge=1, le=1024)]  # pixels
Digit = Annotated[int, Range(ge=0, le=9)]
Subtask = Literal["first", "count", "when"]
HUNDREDTH = 0.01  # of a second: the unit of gold segments
SUBTASKS: tuple[Subtask, ...] = ("first", "count", "when")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The sub-tasks, the length and the size of the videos, and their difficulty."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    subtasks: tuple[Subtask, ...] = SUBTASKS
    """Video i is of sub-task i modulo their number; one that is listed twice occurs twice as often."""
    canvas: Side = 56
    """Pixels: the sides of a frame."""
    sizes: tuple[Side, Side] = (36, 52)
    """Pixels: the smallest and the largest side of a digit."""
    frames: Annotated[int, Range(ge=2, le=512)] = 12
    """Frames of a video."""
    fps: Annotated[float, Range(gt=0, le=1000)] = 2.0
    """Frames a second."""
    step: Positive = 2
    """Frames: a pass begins and ends at multiples of it. 2: at the bounds of the Qwen models' temporal patches."""
    digits: tuple[Digit, ...] = tuple(range(10))
    """The digits that pass."""
    passes: tuple[Positive, Positive] = (2, 2)
    """The fewest and the most passes in a video, one after the other. In `first` and `when` each is of another digit."""
    max_count: Positive = 2
    """The most passes of the target in `count`."""
    train: Natural = 6000
    """Videos of the train split; `validation` and `test`: of the others."""
    validation: Natural = 1000
    """Videos of the validation split."""
    test: Natural = 2000
    """Videos of the test split."""

    def __post_init__(self) -> None:
        mistakes = "; ".join(self._mistakes())
        if mistakes:
            raise ValueError(mistakes)

    @property
    def steps(self) -> int:
        """Steps of a video; frames beyond the last whole step show nothing."""
        return self.frames // self.step

    def _mistakes(self) -> list[str]:
        mistakes: list[str] = []
        if not self.subtasks:
            mistakes.append(f"subtasks is empty; use some of {', '.join(SUBTASKS)}")
        if not self.sizes[0] <= self.sizes[1] <= self.canvas:
            mistakes.append(
                f"sizes {self.sizes}: the smaller one comes first, and both fit canvas {self.canvas}"
            )
        if len(set(self.digits)) != len(self.digits) or len(self.digits) < 2:
            mistakes.append(f"digits must be two or more different digits, not {self.digits}")
        fewest, most = self.passes
        if fewest > most:
            mistakes.append(f"passes {self.passes}: the smaller number comes first")
        elif most > self.steps:
            mistakes.append(
                f"passes up to {most}: {self.frames} frames have {self.steps} steps of {self.step}"
            )
        elif most > len(self.digits) and set(self.subtasks) != {"count"}:
            mistakes.append(
                f"passes up to {most} of different digits, of which there are {len(self.digits)}"
            )
        if self.step / self.fps < HUNDREDTH and "when" in self.subtasks:
            mistakes.append(
                f"fps {self.fps:g}: a pass of {self.step} frames is shorter than {HUNDREDTH} s, in which answers are written; use "
                f"fps up to {self.step / HUNDREDTH:g}, or a larger step"
            )
        if self.max_count > most and "count" in self.subtasks:
            mistakes.append(f"max_count {self.max_count}: more than passes, up to {most}")
        return mistakes
