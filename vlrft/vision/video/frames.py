"""The frames of a video that a model sees, and their size: the rule of qwen-vl-utils (`smart_nframes`, `fetch_video`), in
plain Python, so that it holds where torchvision, which qwen-vl-utils imports, is missing.

`Frames` are what `vlrft.vision.video.decode` makes by a `FrameRule`, and what the videos of a `Sample` are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from vlrft.schema import Frames
from vlrft.schema.ranges import Positive, Range
from vlrft.vision.boxes import resized_size

__all__ = ["FRAME_FACTOR", "FrameRule", "Frames"]

FRAME_FACTOR = 2  # a temporal patch of the Qwen models is two frames
MIN_TOKENS, MAX_TOKENS = 128, 768  # of a frame; a token is a square with sides of `factor` pixels
ALL_TOKENS = 115_200  # of a video: nine tenths of 128,000


@dataclass(frozen=True, kw_only=True)
class FrameRule:
    """How many frames are chosen, and how large each of them is. The defaults are those of qwen-vl-utils."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    fps: Annotated[float, Range(gt=0, le=1000)] = 2.0
    """Frames that are chosen for each second of the video, before the two bounds below."""
    min_frames: Annotated[int, Range(ge=1, le=100_000)] = 4
    """Fewest frames, rounded up to an even number; a video with fewer frames gives all of them but an odd last one."""
    max_frames: Annotated[int, Range(ge=2, le=100_000)] = 768
    """Most frames, rounded down to an even number."""
    min_pixels: Positive | None = None
    """Of a frame; none: 128 squares of `factor` by `factor` pixels. A smaller frame is enlarged."""
    max_pixels: Positive | None = None
    """Of a frame, from `min_pixels` to 768 squares; none: 768 squares. A larger frame is made smaller."""
    total_pixels: Positive | None = None
    """Of all frames together, two of which count as one, as they share their tokens; none: 115,200 squares. It gives way
    to `min_pixels`: no frame has a bound below 1.05 times that."""
    factor: Annotated[int, Range(ge=1, le=256)] = 28
    """Pixels: both sides of a frame are multiples of it. 28: Qwen2-VL and Qwen2.5-VL; 32: Qwen3-VL."""

    def __post_init__(self) -> None:
        low, high = _round_up(self.min_frames), _round_down(self.max_frames)
        if low > high:
            raise ValueError(f"min_frames {self.min_frames}, more than max_frames {high}")
        least, most = self._least(), MAX_TOKENS * self.factor**2
        if self.max_pixels is not None and not least <= self.max_pixels <= most:
            raise ValueError(
                f"max_pixels {self.max_pixels}: use {least} (min_pixels) to {most} ({MAX_TOKENS} squares of factor "
                f"{self.factor}), or set min_pixels"
            )

    def count(self, source_frames: int, source_fps: float) -> int:
        """Number of frames, even and at most `source_frames`. Raises ValueError for a video of less than two frames."""
        if source_frames < FRAME_FACTOR:
            raise ValueError(
                f"{source_frames} frame{'s' * (source_frames != 1)}; at least two are needed"
            )
        wanted = max(source_frames / source_fps * self.fps, _round_up(self.min_frames))
        return _round_down(min(wanted, _round_down(self.max_frames), source_frames))

    def indices(self, source_frames: int, source_fps: float) -> tuple[int, ...]:
        """The numbers of the frames, evenly spread from the first to the last.

        In float64, as transformers' Qwen3-VL has it; qwen-vl-utils spreads them in float32, and takes the neighbour of a
        frame here and there, where two are equally near. Raises ValueError as `count` does.
        """
        chosen = np.linspace(0, source_frames - 1, self.count(source_frames, source_fps))
        return tuple(chosen.round().astype(int).tolist())

    def size(self, width: int, height: int, frames: int) -> tuple[int, int]:
        """Width and height at which a video of `frames` chosen frames of this size is seen.

        Raises ValueError for a frame more than `vlrft.vision.limits.MAX_RATIO` times as long as it is wide.
        """
        least, square = self._least(), self.factor**2
        shared = (self.total_pixels or ALL_TOKENS * square) / frames * FRAME_FACTOR
        most = max(min(MAX_TOKENS * square, shared), int(least * 1.05))
        return resized_size(width, height, least, min(self.max_pixels or most, most), self.factor)

    def _least(self) -> int:
        return self.min_pixels or MIN_TOKENS * self.factor**2


def _round_up(frames: int) -> int:
    return math.ceil(frames / FRAME_FACTOR) * FRAME_FACTOR


def _round_down(frames: float) -> int:
    return math.floor(frames / FRAME_FACTOR) * FRAME_FACTOR
