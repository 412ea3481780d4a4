"""Temporal grounding: when does what a sentence says happen in a video (Charades-STA; ActivityNet Captions in the same form).

Raw forms: the lines of Charades-STA, `VIDEO START END##SENTENCE`, and the json of Time-R1's repositories, `{VIDEO: {duration,
timestamps, sentences}}`. The videos are looked for by their ids in the same folder, or in `options.videos`. Lines whose end
is not after their start, of which the published files have some, are left out, as those who train on them do. A segment may
end after its video: it stays as it is published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlrft.data import Dataset, Row, fill_prompt, read_prompt, user_sample
from vlrft.grading.metrics import accuracy, share_above
from vlrft.schema import VIDEO, Metric, Record, Sample, Task

from .options import Options
from .rows import LAYOUTS

LEVELS = (0.3, 0.5, 0.7)


def sample(row: Row, options: Options) -> Sample:
    if options.prompt == "clean":
        text = fill_prompt(read_prompt(__file__, "clean"), event=row.question.rstrip("."))
        return user_sample(row, (VIDEO, text))
    event = row.question
    if row.info["split"] == "train":  # as released; evaluated is the sentence as it is written
        event = event.lower().removesuffix(".")
    return user_sample(row, (fill_prompt(read_prompt(__file__, "released"), event=event), VIDEO))


def gold(sample: Sample) -> str:
    """A completion that earns full marks."""
    start, end = sample.answer
    return f"<think></think><answer>{start} to {end}</answer>"


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """The mean temporal IoU, and the share of answers that reach 0.3, 0.5 and 0.7."""
    shares = {f"R1@{level}": share_above(records, grader, level) for level in LEVELS}
    return {"mIoU": accuracy(records, grader, 0.5), **shares}


task = Task(
    name="timegrounding",
    doc="Temporal grounding: when a sentence happens in a video (Charades-STA, ActivityNet Captions).",
    options=Options,
    splits=("train", "val", "test"),
    load=Dataset(read=LAYOUTS, sample=sample, sources={}, frames=Options.rule),
    rewards={"temporal_iou": 1.0, "format": 1.0},
    graders={"strict": ("temporal_iou",), "official": ("temporal_iou.time_r1_eval",)},
    metrics=metrics,
    gold=gold,
)
