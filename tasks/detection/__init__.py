"""Detection: every object of a category in a picture, each box with a confidence (Visual-RFT's few-shot and open-vocabulary
setting on COCO and LVIS), measured by COCO's mAP.

Raw forms: Visual-RFT's sets on the hub (image, problem, solution) for training, and COCO's annotation files
(`instances_val2017.json` beside or without its pictures) for testing, or for training on one's own. The released prompt is
Visual-RFT's, with a literal `<image>` in front in its evaluation. Published results are of the categories that a first pass
of the base model found in each picture (`options.ask`), and count objects that were not asked for as missed; `ask: present`
asks only for what is there and so leaves out false alarms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlrft.data import Dataset, Row, fill_prompt, read_prompt, user_sample
from vlrft.grading import MAX_LIST, read_answer
from vlrft.schema import IMAGE, Sample, Task
from vlrft.vision.box_options import box_frame, gold_box, resize, unit_text

from .average_precision import require_pycocotools
from .metrics import metrics
from .options import HUB_IDS, Options
from .rows import read


def sample(row: Row, options: Options) -> Sample:
    info: dict[str, Any] = dict(row.info)
    frame = None
    if options.boxes == "resized":
        frame = info["frame"] = box_frame(options, info["size"], row.id)
    problem = info.pop("problem")
    released = options.prompt == "released"
    text = fill_prompt(
        read_prompt(__file__, options.prompt), category=row.question, unit=unit_text(frame)
    )
    if released and row.info["split"] == "test":
        text = f"<image>\n{text}"
    elif released and problem:
        text = problem  # as the data set has it
    asked = user_sample(row, (IMAGE, text))
    return Sample(id=row.id, messages=asked.messages, answer=row.answer, tags=row.tags, info=info)


def gold(sample: Sample) -> str:
    """The gold boxes with confidence 1, in the unit of `options.boxes`; No Objects where there is none."""
    boxes = [list(gold_box(tuple(box), sample.info)) for box in sample.answer]
    detections = ", ".join(f"{{'Position': {box}, 'Confidence': 1}}" for box in boxes)
    text = f"[{detections}]" if boxes else sample.info["none"]
    return f"<think></think><answer>{text}</answer>"


def complete(options: Options) -> None:
    """Nothing is added to records. Checked when the task is loaded: an evaluation would fail after its last answer."""
    require_pycocotools()


def sources(options: Options) -> Mapping[str, str]:
    return {"train": HUB_IDS[options.dataset]}


task = Task(
    name="detection",
    doc="Detection of a category's objects with confidences (Visual-RFT's COCO and LVIS sets), by COCO's mAP.",
    options=Options,
    splits=("train", "test"),
    load=Dataset(read=read, sample=sample, sources=sources),
    rewards={"boxes.detected": 1.0, "format": 1.0},
    graders={"strict": ("boxes.detected_iou",), "official": ("boxes.visual_rft_iou",)},
    metrics=metrics,
    gold=gold,
    extract=lambda completion: read_answer(completion, MAX_LIST),
    resize=resize,
    complete=complete,
)
