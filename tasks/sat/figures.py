"""CV-Bench's own score."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from vlrft.grading.metrics import grades_by_sample
from vlrft.schema import Metric, Record

FLAT, SOLID = ("ADE20K", "COCO"), ("Omni3D",)


def cvbench(records: Sequence[Record], grader: str) -> Metric:
    """((ADE20K + COCO) / 2 + Omni3D) / 2 of the accuracies by source (the data set's card). A source that
    is not there does not count, nor does a dimension without any."""
    by_id = grades_by_sample(records, grader)
    source = {r.id: r.tags.get("source", "") for r in records}
    values, own = [fmean(g) for g in by_id.values()], [source[i] for i in by_id]

    def score(places: Sequence[int]) -> float:
        found: dict[str, list[float]] = {}
        for place in places:
            found.setdefault(own[place], []).append(values[place])
        halves = [[fmean(found[s]) for s in part if s in found] for part in (FLAT, SOLID)]
        known = [fmean(half) for half in halves if half]
        return fmean(known) if known else 0.0

    trials = len(next(iter(by_id.values()), [0.0]))
    return Metric(values=tuple(values), trials=trials, aggregate=score)
