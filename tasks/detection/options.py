"""Options of detection: the data, the categories that are asked for, and how boxes are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from vlrft.vision.box_options import BoxOptions

HUB_IDS: Mapping[str, str] = {
    "coco_4_shot": "laolao77/ViRFT_COCO_8_cate_4_shot",
    "coco_base65": "laolao77/ViRFT_COCO_base65",
    "coco": "laolao77/ViRFT_COCO",
    "lvis_few_shot": "laolao77/ViRFT_LVIS_few_shot",
}
# The categories of Visual-RFT's evaluation of each (Qwen2_VL_coco_infere.py, Qwen2_VL_lvis_infere.py); None: all.
TEST_CATEGORIES: Mapping[str, tuple[str, ...] | None] = {
    "coco_4_shot": (
        *("bus", "train", "fire hydrant", "stop sign"),
        *("cat", "dog", "bed", "toilet"),
    ),
    "coco_base65": (
        *("mouse", "fork", "hot dog", "cat", "airplane", "suitcase", "parking meter", "sandwich"),
        *("train", "hair drier", "toilet", "toaster", "snowboard", "frisbee", "bear"),
    ),
    "coco": None,
    "lvis_few_shot": (
        *("horse_buggy", "die", "kitchen_table"),
        *("omelet", "papaya", "stepladder"),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Options(BoxOptions):
    """The set, its source, and what is asked of each picture."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    dataset: Literal["coco_4_shot", "coco_base65", "coco", "lvis_few_shot"] = "coco_4_shot"
    """Chooses the hub's training set, and the categories that are tested."""
    data: str | None = None
    """Training: a folder, zip, table or hub id with image, problem, solution; the hub's set unless given. Also, and for
    testing always: a COCO annotation file such as instances_val2017.json, or a folder that has it."""
    images: str | None = None
    """The folder or zip of the pictures that an annotation file names; the place of the file unless given."""
    categories: tuple[str, ...] | None = None
    """The categories that are asked for, of an annotation file; null: those of the data set's published test."""
    ask: str = "present"
    """Of which categories each picture of an annotation file is asked. present: those that it has. all: every one. Or a json
    file, picture id -> names, as Visual-RFT's exist_map_coco_Qwen2_vl_2B_baseline.json."""
    prompt: Literal["clean", "released"] = "clean"
    """clean: asks for the form that the strict rewards read; released: as the authors' code asks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prompt == "released" and self.boxes != "thousandths":
            raise ValueError("the released prompt asks for boxes: thousandths")
