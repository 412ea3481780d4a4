"""LISA's reasoning grounding: the box of what an instruction asks for (ReasonSeg, Visual-RFT's setting).

Raw forms: ReasonSeg's folders `train/`, `val/` and `test/` of pictures, each with a json of polygons
(`shapes`: label, points) and instructions (`text`), and its copies on the hub with a mask a row (Ricky06662/ReasonSeg_val and
ReasonSeg_test, given as options.data), where ignored regions are part of the target. The released training prompt has
a user message only; the released evaluation adds a system prompt and a full stop.
"""

from __future__ import annotations

from typing import Any

from vlrft.data import Dataset, Row, read_prompt
from vlrft.schema import IMAGE, Message, Sample, Task
from vlrft.vision.box_options import box_frame, gold_box, resize, unit_text
from vlrft.vision.boxes import to_thousandths

from .metrics import metrics
from .overlaps import complete
from .rows import Options, read
from .synthetic import SYNTHETIC


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
    frame = box_frame(options, row.info["size"], row.id)
    if frame is not None:
        info["frame"] = frame
    return Sample(
        id=row.id,
        messages=_messages(row, options, unit_text(frame)),
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


def gold(sample: Sample) -> str:
    """The gold box in the unit of `options.boxes`."""
    box = gold_box(sample.answer, sample.info)
    return "<think></think><answer>({},{}),({},{})</answer>".format(*box)


task = Task(
    name="lisa",
    doc="LISA: the box of what an instruction asks for (ReasonSeg train 239, val 200, test 779).",
    options=Options,
    splits=("train", "val", "test"),
    load=Dataset(read=read, sample=sample, sources={}, synthetic=SYNTHETIC),
    rewards={"boxes": 1.0, "format": 1.0},
    graders={"strict": ("boxes",), "official": ("boxes.visual_rft_eval",)},
    metrics=metrics,
    detail=lambda record: "box",
    gold=gold,
    resize=resize,
    complete=complete,
)
