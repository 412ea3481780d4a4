"""The score of CV-Bench."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from vlrft.grading.metrics import count_correct, grades_by_sample
from vlrft.schema import Metric, Record

SOURCES_2D, SOURCES_3D = ("ADE20K", "COCO"), ("Omni3D",)


def cvbench(records: Sequence[Record], grader: str) -> Metric:
    """((ADE20K + COCO) / 2 + Omni3D) / 2 of the accuracies by source (the dataset's card). A source without records does
    not count, nor does a half without any source."""
    grades = grades_by_sample(records, grader)
    source_of = {r.id: r.tags.get("source", "") for r in records}
    values, sources = [fmean(g) for g in grades.values()], [source_of[i] for i in grades]

    def score(indices: Sequence[int]) -> float:
        by_source: dict[str, list[float]] = {}
        for index in indices:
            by_source.setdefault(sources[index], []).append(values[index])
        halves = [
            [fmean(by_source[s]) for s in half if s in by_source]
            for half in (SOURCES_2D, SOURCES_3D)
        ]
        means = [fmean(half) for half in halves if half]
        return fmean(means) if means else 0.0

    return Metric(
        values=tuple(values),
        trials=len(next(iter(grades.values()), [0.0])),
        correct=count_correct(grades.values()),
        aggregate=score,
    )
