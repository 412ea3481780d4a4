"""Real handwritten digits composed into scenes: name one, count them, say which is left, find one.

Needs no download and no GPU: the scans ship with scikit-learn. Every image token, prompt and reward
is of the kind the large packs use, so a small model shows in minutes what a method does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlrft.grading.metrics import accuracy
from vlrft.schema import Metric, Record, Sample, Task

from .options import SUBTASKS, Options
from .scans import SPLITS
from .scenes import load

FOUND = 0.5  # IoU from which on a digit counts as found


def gold(sample: Sample) -> str:
    """The completion that earns full marks; what `sft` teaches."""
    answer = sample.answer
    if sample.tags["answer"] == "box":
        x1, y1, x2, y2 = answer
        answer = f"({x1},{y1}),({x2},{y2})"
    return f"<answer>{answer}</answer>"


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Accuracy of `classify`, `count` and `relation`; mean IoU of `ground`. Only what the records
    hold."""
    out: dict[str, Metric] = {}
    for kind in SUBTASKS:
        own = [r for r in records if r.tags["kind"] == kind]
        if own:
            out[kind] = accuracy(own, grader, FOUND if kind == "ground" else 1.0)
    return out


task = Task(
    name="digits",
    doc="Scanned digits in scenes: classify, count, relation, ground. Built in, no download.",
    options=Options,
    splits=SPLITS,
    load=load,
    rewards={"choice": 1.0, "count": 1.0, "boxes": 1.0, "format": 0.1},
    graders={"strict": ("choice", "count", "boxes")},
    metrics=metrics,
    gold=gold,
)
