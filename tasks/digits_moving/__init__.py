"""Real handwritten digits that pass through short videos: which comes first, how often one passes, from when to when.

It needs no download, no GPU and no decoder: the frames are composed from the scans of the pack `digits`. Questions of time
are answered in seconds, as those of `timegrounding`, so that a small model shows the effect of an algorithm in minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlrft.grading.metrics import accuracy_by_tag
from vlrft.schema import Detail, Metric, Record, Sample, Task

from ..digits.scans import SPLITS
from .options import SUBTASKS, Options
from .videos import load

FOUND: Mapping[str, float] = {"when": 0.5}  # temporal IoU from which a pass counts as found
DETAILS: Mapping[str, Detail] = {"first": "class"}


def gold(sample: Sample) -> str:
    """A completion that earns full marks; also the target of `sft`."""
    answer = sample.answer
    if sample.tags["answer"] == "segment":
        answer = f"{answer[0]}, {answer[1]}"
    return f"<answer>{answer}</answer>"


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Accuracy of `first` and `count`, mean temporal IoU of `when`; those of which there are records."""
    return accuracy_by_tag(records, grader, "kind", order=SUBTASKS, thresholds=FOUND)


task = Task(
    name="digits_moving",
    doc="Scanned digits that pass through videos: first, count, when. Built in, no download.",
    options=Options,
    splits=SPLITS,
    load=load,
    rewards={"choice": 1.0, "count": 1.0, "temporal_iou": 1.0, "format": 0.1},
    graders={"strict": ("choice", "count", "temporal_iou")},
    metrics=metrics,
    detail=lambda record: DETAILS.get(record.tags["kind"]),
    gold=gold,
)
