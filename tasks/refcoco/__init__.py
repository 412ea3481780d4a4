"""RefCOCO, RefCOCO+ and RefCOCOg: the box of the object that an expression refers to, in COCO's train2014 pictures.

Raw forms: VLM-R1's `rec_jsons_processed.zip` (hub omlab/VLM-R1: `refcoco_train.jsonl` with id, image, conversations;
`refcoco_val.json` with image, problem, solution, width, height, …; `refcocop` is RefCOCO+), lmms-lab's sets on the hub
(image, answer: expressions of one object, bbox: x, y, width, height), and Qwen-VL's jsonl (image, sent, bbox, width,
height). Boxes are in pixels. The released prompt is VLM-R1's; its official grader, too, while that of the clean prompt is
Qwen-VL's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vlrft.data import Dataset, Row, fill_prompt, read_prompt, user_sample
from vlrft.grading.metrics import accuracy, share_above
from vlrft.schema import IMAGE, Metric, Record, Sample, Task
from vlrft.vision.box_options import box_frame, gold_box, resize, unit_text
from vlrft.vision.boxes import to_thousandths

from .expressions import PREFIX
from .options import Options
from .rows import HUB_IDS, read


def sample(row: Row, options: Options) -> Sample:
    width, height = row.info["size"]
    x1, y1, x2, y2 = row.info["box"]
    info: dict[str, Any] = dict(row.info)
    frame = box_frame(options, row.info["size"], row.id)
    if frame is not None:
        info["frame"] = frame
    released = options.prompt == "released"
    problem = info.pop("problem") or f"{PREFIX} {row.question}."
    text = fill_prompt(
        read_prompt(__file__, options.prompt),
        expression=row.question,
        problem=problem,
        unit=unit_text(frame),
    )
    asked = user_sample(row, (IMAGE, text))
    return Sample(
        id=row.id,
        messages=asked.messages,
        answer=to_thousandths((x1, y1, x2, y2), width, height),
        tags={**row.tags, "answer": "bbox_2d" if released else "box"},
        info=info,
    )


def gold(sample: Sample) -> str:
    """The gold box in the unit of `options.boxes` and the form that the prompt asks for."""
    box = gold_box(sample.answer, sample.info)
    form = "({},{}),({},{})"
    if sample.tags["answer"] == "bbox_2d":
        form = '{{"bbox_2d": [{}, {}, {}, {}]}}'
    return f"<think></think><answer>{form.format(*box)}</answer>"


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Acc@0.5, for several sets also of each; of the strict grader, whose grade is the IoU, also mIoU and Acc@0.7. The
    official graders give 1 or 0 at their own threshold."""
    result = {"Acc@0.5": share_above(records, grader, 0.5)}
    if grader == "strict":
        result["mIoU"] = accuracy(records, grader, threshold=0.5)
        result["Acc@0.7"] = share_above(records, grader, 0.7)
    by_set: dict[str, list[Record]] = {}
    for record in records:
        by_set.setdefault(record.tags.get("dataset", ""), []).append(record)
    if len(by_set) > 1:
        for name, some in by_set.items():
            result[f"Acc@0.5 {name}"] = share_above(some, grader, 0.5)
    return result


def sources(options: Options) -> Mapping[str, str]:
    splits = {"refcocog": ("val", "test"), "refcoco+": ("val", "testA", "testB")}
    if options.dataset == "all":
        return {}
    of_set = splits.get(options.dataset, ("val", "test", "testA", "testB"))
    return dict.fromkeys(of_set, HUB_IDS[options.dataset])


task = Task(
    name="refcoco",
    doc="RefCOCO/+/g: the box of what an expression refers to (train by VLM-R1; val, testA, testB, test).",
    options=Options,
    splits=("train", "val", "test", "testA", "testB"),
    load=Dataset(read=read, sample=sample, sources=sources),
    rewards={"boxes": 1.0, "boxes.bbox_2d": 1.0, "format": 1.0},
    graders={
        "strict": ("boxes", "boxes.bbox_2d"),
        "official": ("boxes.vlm_r1_eval", "boxes.qwen_vl_eval"),
    },
    metrics=metrics,
    detail=lambda record: "box",
    gold=gold,
    resize=resize,
)
