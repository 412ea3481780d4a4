"""The settings of the task refcoco."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from vlrft.schema.ranges import Positive
from vlrft.vision.box_options import BoxOptions


@dataclass(frozen=True, kw_only=True)
class Options(BoxOptions):
    """The set, its source, its pictures, and how boxes are written."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    dataset: Literal["refcoco", "refcoco+", "refcocog", "all"] = "refcoco"
    """all: the three sets one after the other, as VLM-R1 trains; needs `data`."""
    data: str | None = None
    """VLM-R1's rec_jsons_processed (folder or zip), a copy of lmms-lab's sets, or a table; lmms-lab's set on the hub unless
    given. Training rows are not on the hub in that form."""
    images: str | None = None
    """The folder or zip of COCO's train2014 pictures, where rows name files; the place of the rows unless given."""
    prompt: Literal["clean", "released"] = "clean"
    """released: VLM-R1's, which asks for JSON; needs `boxes: resized`."""
    max_pixels: Positive = 802816
    """Of `boxes: resized`: the policy.max_pixels of the run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prompt == "released" and self.boxes != "resized":
            raise ValueError("the released prompt is for boxes: resized, as Qwen2.5-VL writes them")
