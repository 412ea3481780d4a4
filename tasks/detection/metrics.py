"""Metrics of detection: COCO's average precisions, of the boxes that each grader reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from vlrft.grading import MAX_LIST, read_answer, read_detections
from vlrft.grading.metrics import accuracy
from vlrft.schema import Metric, Record
from vlrft.vision.boxes import THOUSAND, is_proper, rescale

from .average_precision import AveragePrecision, Graded
from .released import read_released_detections

MOST_CATEGORIES = 20  # that get a line each


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """mAP (over IoU thresholds 0.5 to 0.95), AP50, AP75 and, of objects of a size, APs, APm, APl; with at most 20 categories
    also the AP of each. A metric without objects is left out.

    The strict grader's boxes are those of a readable answer within its frame; another grader's those that Visual-RFT's
    evaluation reads. The values of single items are their grades. Several answers to a sample are pooled.
    """
    places: dict[str, list[int]] = {}  # sample -> the indices of what it is measured by
    graded: list[Graded] = []
    for record in records:
        parts = _grade(record, strict=grader == "strict")
        places.setdefault(record.id, []).extend(range(len(graded), len(graded) + len(parts)))
        graded += parts
    by_item = list(places.values())
    precision = AveragePrecision(graded)
    base = accuracy(records, grader, threshold=0.5)
    wanted: dict[str, tuple[str, float | None, str | None]] = {
        "mAP": ("all", None, None),
        "AP50": ("all", 0.5, None),
        "AP75": ("all", 0.75, None),
        "AP small": ("small", None, None),
        "AP medium": ("medium", None, None),
        "AP large": ("large", None, None),
    }
    if 1 < len(precision.categories) <= MOST_CATEGORIES:
        wanted |= {f"AP {name}": ("all", None, name) for name in precision.categories}

    def aggregate(of: tuple[str, float | None, str | None], indices: Sequence[int]) -> float:
        weights = np.zeros(len(graded), dtype=np.int64)
        for index in indices:
            weights[by_item[index]] += 1
        if (weights == 1).all():
            return precision.value(*of)
        return precision.resample(weights, *of)

    return {
        name: Metric(
            values=base.values,
            threshold=0.5,
            trials=base.trials,
            correct=base.correct,
            aggregate=partial(aggregate, of),
        )
        for name, of in wanted.items()
        if precision.value(*of) >= 0
    }


def _grade(record: Record, *, strict: bool) -> list[Graded]:
    """The answer, and the objects of its category that no answer could find."""
    size = record.info["size"]
    frame = record.info.get("frame", (THOUSAND, THOUSAND))
    if strict:
        read = read_detections(read_answer(record.output, MAX_LIST) or "") or []
        boxes = [(box, c) for box, c in read if is_proper(box, *frame)]
    else:
        boxes = read_released_detections(record.output)
    found = [(rescale(box, frame, size), c) for box, c in boxes]
    category = record.tags["category"]
    answer = Graded(category=category, objects=record.info["objects"], detections=found)
    missed = record.info.get("missed", ())
    return [answer, *(Graded(category=category, objects=m, detections=()) for m in missed)]
