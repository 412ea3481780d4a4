"""The options of a pack whose answers are boxes: the unit that the policy is asked for, and the size of the resized picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from vlrft.schema import DataError, Resize
from vlrft.schema.changed_settings import changed_settings
from vlrft.schema.ranges import Positive
from vlrft.vision.boxes import THOUSAND, Box, rescale, resized_size, round_box

BOUNDS = ("min_pixels", "max_pixels")


@dataclass(frozen=True, kw_only=True)
class BoxOptions:
    """Base of a pack's options."""

    boxes: Literal["thousandths", "resized"] = "thousandths"
    """The unit that the policy is asked for. thousandths: as Qwen2-VL writes boxes. resized: pixels of the image as the
    processor resizes it, as Qwen2.5-VL writes them; the two bounds below must be the policy's."""
    min_pixels: Positive = 3136
    """Of `boxes: resized`: the policy.min_pixels of the run."""
    max_pixels: Positive = 401408
    """Of `boxes: resized`: the policy.max_pixels of the run."""

    bounds_of_data: ClassVar[bool] = (
        False  # boxes of the data may be in pixels of the resized picture, too
    )

    def __post_init__(self) -> None:
        if self.min_pixels > self.max_pixels:
            raise ValueError(
                f"min_pixels {self.min_pixels}, more than max_pixels {self.max_pixels}"
            )
        if self.boxes == "resized" or self.bounds_of_data:
            return
        for name, value in changed_settings(self).items():
            if name in BOUNDS:
                raise ValueError(
                    f"{name} {value}: has no effect with boxes: {self.boxes}; leave it out, or set policy.{name} "
                    "for the size of the images"
                )


def resize(options: BoxOptions) -> Resize | None:
    """The resizing of boxes in pixels of the resized picture, which the policy's image processor must do too."""
    if options.boxes != "resized":
        return None
    return Resize(min_pixels=options.min_pixels, max_pixels=options.max_pixels)


def box_frame(options: BoxOptions, size: Sequence[int], sample: str) -> tuple[int, int] | None:
    """Width and height of the picture as the processor resizes it, in whose pixels boxes are asked for; None where they are
    asked for in thousandths. `size`: of the picture. Raises DataError with the sample's id for a picture that is too long."""
    if options.boxes != "resized":
        return None
    try:
        return resized_size(size[0], size[1], options.min_pixels, options.max_pixels)
    except ValueError as e:
        raise DataError(f"sample {sample}: {e}") from None


def unit_text(frame: Sequence[int] | None) -> str:
    """The unit in the words of a prompt; None: thousandths."""
    if frame is None:
        return "in thousandths of the picture's width and height"
    width, height = frame
    return f"in pixels of the picture, which is {width} pixels wide and {height} high"


def gold_box(box: Box, info: Mapping[str, Any]) -> Box:
    """A gold box in thousandths, in pixels of the frame that a sample's `info` has, if any."""
    if "frame" not in info:
        return box
    return round_box(rescale(box, (THOUSAND, THOUSAND), info["frame"]))
