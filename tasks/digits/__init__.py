"""Real handwritten digits composed into scenes: classify one, count them, compare positions, locate one, multiply them.

It needs no download and no GPU: the scans are part of scikit-learn. Image tokens, prompts and rewards are of the same kinds
as in the large packs, so that a small model shows the effect of an algorithm in minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from vlrft.grading.metrics import accuracy_by_tag
from vlrft.schema import Detail, Metric, Record, Sample, Task

from .options import SUBTASKS, Options
from .scans import SPLITS
from .scenes import load, multiply

FOUND: Mapping[str, float] = {"ground": 0.5}  # IoU from which a digit counts as located
DETAILS: Mapping[str, Detail] = {"classify": "class", "ground": "box"}


def gold(sample: Sample) -> str:
    """A completion that earns full marks; also the target of `sft`."""
    answer = sample.answer
    if sample.tags["answer"] == "box":
        x1, y1, x2, y2 = answer
        answer = f"({x1},{y1}),({x2},{y2})"
    steps = write_steps(sample.info["digits"]) if sample.tags["kind"] == "product_steps" else ""
    return f"{steps}<answer>{answer}</answer>"


def write_steps(digits: Sequence[int]) -> str:
    """The digits of a scene and the last digit of each running product: `<think>3*7=1*9=9</think>`."""
    first, *others = digits
    products = list(accumulate(digits, multiply))[1:]
    steps = "".join(f"*{digit}={last}" for digit, last in zip(others, products, strict=True))
    return f"<think>{first}{steps}</think>"


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Mean IoU of `ground`, accuracy of the other sub-tasks; those of which there are records."""
    return accuracy_by_tag(records, grader, "kind", order=SUBTASKS, thresholds=FOUND)


task = Task(
    name="digits",
    doc="Scanned digits in scenes: classify, count, relation, ground, product. Built in, no download.",
    options=Options,
    splits=SPLITS,
    load=load,
    rewards={"choice": 1.0, "count": 1.0, "boxes": 1.0, "format": 0.1},
    graders={"strict": ("choice", "count", "boxes")},
    metrics=metrics,
    detail=lambda record: DETAILS.get(record.tags["kind"]),
    gold=gold,
)
