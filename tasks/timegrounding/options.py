"""Options of the data, the prompt, and the frames that a model sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from vlrft.schema.ranges import Positive, Range
from vlrft.vision.video.frames import FrameRule


@dataclass(frozen=True, kw_only=True)
class Options:
    """The source of the data, the prompt, and the frames of the videos."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    data: str | None = None
    """A folder or zip with the annotations. They are not on the hub: the videos have a licence of their own."""
    videos: str | None = None
    """A folder or zip with the videos; that of the data unless given. Not needed for prepared data."""
    prompt: Literal["clean", "released"] = "clean"
    """clean: asks for the form that the strict rewards read; released: as the authors of Time-R1 ask, before the video."""
    fps: Annotated[float, Range(gt=0, le=1000)] = 2.0
    """Frames that are chosen for each second of a video."""
    min_frames: Annotated[int, Range(ge=1, le=100_000)] = 4
    """Fewest frames of a video."""
    max_frames: Annotated[int, Range(ge=2, le=100_000)] = 768
    """Most frames of a video."""
    min_pixels: Positive = 16 * 28 * 28
    """Of a frame; a smaller one is enlarged. As Time-R1 trains and evaluates, and so is `total_pixels`."""
    max_pixels: Positive | None = None
    """Of a frame; none: 768 squares of `factor` by `factor` pixels."""
    total_pixels: Positive = 3584 * 28 * 28
    """Of all frames of a video together, two of which count as one."""
    factor: Annotated[int, Range(ge=1, le=256)] = 28
    """Pixels: both sides of a frame are multiples of it. 28: Qwen2-VL and Qwen2.5-VL; 32: Qwen3-VL."""

    def __post_init__(self) -> None:
        self.rule()

    def rule(self) -> FrameRule:
        """The frames of each video. Raises ValueError for settings that contradict each other."""
        return FrameRule(
            fps=self.fps,
            min_frames=self.min_frames,
            max_frames=self.max_frames,
            min_pixels=self.min_pixels,
            max_pixels=self.max_pixels,
            total_pixels=self.total_pixels,
            factor=self.factor,
        )
