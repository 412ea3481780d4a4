"""A video as a sample holds it: the pictures that a model sees, and when each of them was on screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vlrft.schema.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Frames:
    """Frames that were chosen from a video, in the order of their time.

    Raises DataError for pictures of another shape or type, and where `indices` and `seconds` do not fit them.
    """

    pictures: NDArray[np.uint8]  # [T, height, width, 3] RGB, upright, T >= 1; not to be written to
    indices: Sequence[int]  # [T] numbers of these frames in the source, not decreasing
    seconds: Sequence[float]  # [T] when each is on screen; 0 is the start of the source
    source_fps: float
    """Frames a second of the source, on average: `indices[k] / source_fps` is `seconds[k]` where its rate is constant."""
    source_seconds: float
    """Length of the source: its number of frames divided by `source_fps`."""

    def __post_init__(self) -> None:
        shape = tuple(self.pictures.shape)
        if self.pictures.dtype.name != "uint8" or len(shape) != 4 or shape[3] != 3 or 0 in shape:
            raise DataError(
                f"frames of shape {list(shape)} and type {self.pictures.dtype}; "
                "expected uint8 [frames, height, width, 3], none of them 0"
            )
        for name, values in (("indices", self.indices), ("seconds", self.seconds)):
            finite = all(map(math.isfinite, values))
            if (
                len(values) != shape[0]
                or not finite
                or values[0] < 0
                or sorted(values) != [*values]
            ):
                raise DataError(
                    f"{name} of frames are {str(list(values))[:80]}; "
                    f"expected {shape[0]} numbers from 0 that do not decrease, one for each frame"
                )
        for name, value in (
            ("source_fps", self.source_fps),
            ("source_seconds", self.source_seconds),
        ):
            if not (value > 0 and math.isfinite(value)):
                raise DataError(f"{name} of frames is {value}; expected a finite number above 0")

    def __len__(self) -> int:
        return int(self.pictures.shape[0])

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return int(self.pictures.shape[2]), int(self.pictures.shape[1])

    @property
    def fps(self) -> float:
        """Frames a second as they were chosen: T divided by the length of the source, as qwen-vl-utils states it."""
        return len(self) / self.source_seconds
