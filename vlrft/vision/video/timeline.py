"""When the frames of a video are shown, and which of them a rule chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vlrft.schema import Frames

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vlrft.vision.video.frames import FrameRule

UNEVEN = 0.5  # of a frame: farther than this from its place at a constant rate, the rate varies


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The frames of a video in the order in which they are shown, before any is decoded."""

    ticks: NDArray[np.int64]  # [N], increasing; 0 is the first frame
    start: int | None  # time of the first frame in the file, in ticks; None where frames state none
    tick: float  # seconds
    fps: float  # on average
    size: tuple[
        int, int
    ]  # width and height in pixels, before a video that was taken sideways is turned

    @property
    def seconds(self) -> float:
        """Length of the video."""
        return len(self.ticks) / self.fps

    @property
    def even(self) -> bool:
        """Whether the frames follow each other at a constant rate."""
        places = self.ticks * (self.tick * self.fps)
        return bool(np.abs(places - np.arange(len(places))).max() < UNEVEN)

    def outline(self, rule: FrameRule) -> Frames:
        """The frames that the rule chooses, at its size, before they are decoded: black, and their pictures take no memory.
        Raises ValueError as the rule does."""
        indices, seconds = self.choose(rule)
        width, height = rule.size(*self.size, len(indices))
        return Frames(
            pictures=np.broadcast_to(np.uint8(0), (len(indices), height, width, 3)),
            indices=indices,
            seconds=seconds,
            source_fps=self.fps,
            source_seconds=self.seconds,
        )

    def choose(self, rule: FrameRule) -> tuple[list[int], list[float]]:
        """Numbers and times of the frames that the rule chooses; of a variable rate, those that are on screen at times
        that are evenly spread. Raises ValueError as the rule does."""
        if self.even:
            indices = list(rule.indices(len(self.ticks), self.fps))
            return indices, [index / self.fps for index in indices]
        count = rule.count(len(self.ticks), self.fps)
        wanted = np.linspace(0, self.ticks[-1], count).round().astype(np.int64)
        shown = np.searchsorted(self.ticks, wanted, side="right") - 1
        return shown.tolist(), (wanted * self.tick).tolist()


def frame_rate(ticks: NDArray[np.int64], tick: float, stated: Any) -> float:
    """Frames a second: the stated rate where it is that of the frames to within one of them, which are rounded to ticks."""
    intervals, length = len(ticks) - 1, float(ticks[-1]) * tick
    if stated and abs(float(stated) * length - intervals) < 1:
        return float(stated)
    return intervals / length
