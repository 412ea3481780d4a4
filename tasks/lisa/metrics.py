"""Metrics of grounding: of boxes, and of masks where the records have polygons or runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from vlrft.grading.metrics import accuracy, count_correct, share_above
from vlrft.schema import Metric, Record

from .overlaps import overlaps


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """mIoU, Acc@0.5 and Acc@0.7 of the boxes; of the strict grader also gIoU (the mean IoU of masks) and cIoU (all
    intersections over all unions)."""
    result = {
        "mIoU": accuracy(records, grader, threshold=0.5),
        "Acc@0.5": share_above(records, grader, 0.5),
        "Acc@0.7": share_above(records, grader, 0.7),
    }
    if grader != "strict" or not all({"shapes", "runs"} & set(r.info) for r in records):
        return result
    by_id: dict[str, list[Record]] = {}
    for record in records:
        by_id.setdefault(record.id, []).append(record)
    pairs = [overlaps(answers) for answers in by_id.values()]

    def cumulative(places: Sequence[int]) -> float:
        union = sum(outer for p in places for _, outer in pairs[p])
        return sum(inner for p in places for inner, _ in pairs[p]) / union if union else 0.0

    ious = [[i / u if u else 0.0 for i, u in answers] for answers in pairs]
    masks = Metric(
        values=tuple(map(fmean, ious)),
        threshold=0.5,
        trials=max(map(len, pairs), default=1),
        correct=count_correct(ious, 0.5),
    )
    return {**result, "gIoU": masks, "cIoU": replace(masks, aggregate=cumulative)}
