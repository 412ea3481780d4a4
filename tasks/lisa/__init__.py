"""LISA's reasoning grounding: the box of what an instruction asks for (ReasonSeg, Visual-RFT's setting).

Raw forms: ReasonSeg's folders `train/`, `val/` and `test/` of pictures, each with a json of polygons
(`shapes`: label, points) and instructions (`text`), and its copies on the hub with a mask a row (Ricky06662/ReasonSeg_val and
ReasonSeg_test, given as options.data), where ignored regions are part of the target. The released training prompt has
a user message only; the released evaluation adds a system prompt and a full stop.
"""

from __future__ import annotations

from typing import Any

from vlrft.data import Dataset, Row, read_prompt
from vlrft.schema import IMAGE, DataError, Message, Resize, Sample, Task
from vlrft.vision.boxes import Box, rescale, resized_size, round_box, to_thousandths

from .metrics import metrics
from .overlaps import complete
from .rows import Options, read

UNITS = {
    "thousandths": "in thousandths of the picture's width and height",
    "resized": "in pixels of the picture, which is {} pixels wide and {} high",
}


def sample(row: Row, options: Options) -> Sample:
    width, height = row.info["size"]
    x1, y1, x2, y2 = row.info[options.box]
    answer = to_thousandths((x1, y1, x2, y2), width, height)
    if options.box == "first_shape":
        answer = (
            int(x1 * 1000 / width),
            int(y1 * 1000 / height),
            int(x2 * 1000 / width),
            int(y2 * 1000 / height),
        )
    info: dict[str, Any] = dict(row.info)
    unit = UNITS[options.boxes]
    if options.boxes == "resized":
        try:
            info["frame"] = resized_size(width, height, options.min_pixels, options.max_pixels)
        except ValueError as e:
            raise DataError(f"sample {row.id}: {e}") from None
        unit = unit.format(*info["frame"])
    return Sample(
        id=row.id,
        messages=_messages(row, options, unit),
        answer=answer,
        tags=row.tags,
        info=info,
    )


def _messages(row: Row, options: Options, unit: str) -> tuple[Message, ...]:
    test = row.info["split"] != "train"
    name = "clean"
    if options.prompt == "released":
        name = "released_test" if test else "released_train"
    text = read_prompt(__file__, name).replace("{unit}", unit)
    asked = Message(role="user", content=(IMAGE, text.replace("{instruction}", row.question)))
    if name != "released_test":
        return (asked,)
    system = Message(role="system", content=(read_prompt(__file__, "released_system"),))
    return (system, asked)


def resize(options: Options) -> Resize | None:
    """The resizing of boxes in pixels of the resized picture, which the policy's image processor must do too."""
    if options.boxes != "resized":
        return None
    return Resize(min_pixels=options.min_pixels, max_pixels=options.max_pixels)


def gold(sample: Sample) -> str:
    """The gold box in the unit of `options.boxes`."""
    box: Box = sample.answer
    if "frame" in sample.info:
        box = round_box(rescale(box, (1000, 1000), sample.info["frame"]))
    return "<think></think><answer>({},{}),({},{})</answer>".format(*box)


task = Task(
    name="lisa",
    doc="LISA: the box of what an instruction asks for (ReasonSeg train 239, val 200, test 779).",
    options=Options,
    splits=("train", "val", "test"),
    load=Dataset(read=read, sample=sample, sources={}),
    rewards={"boxes": 1.0, "format": 1.0},
    graders={"strict": ("boxes",), "official": ("boxes.visual_rft_eval",)},
    metrics=metrics,
    detail=lambda record: "box",
    gold=gold,
    resize=resize,
    complete=complete,
)
