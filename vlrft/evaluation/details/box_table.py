"""Grounding: the share of boxes above each IoU, and the accuracy by the size of the gold box, by the strict grader."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from vlrft.evaluation.bootstrap import Interval
from vlrft.evaluation.intervals import metric_interval
from vlrft.grading.metrics import grades_by_sample, reaches_threshold
from vlrft.schema import Record
from vlrft.schema.pluralize import pluralize
from vlrft.scoring.graders import STRICT
from vlrft.vision.boxes import THOUSAND, is_box

THRESHOLDS = tuple(k / 100 for k in range(5, 100, 5))
PRINTED = (0.25, 0.5, 0.75, 0.9)
SIZES = {"small": 32.0**2, "medium": 96.0**2, "large": float("inf")}
"""Upper bounds of the area in pixels, as in COCO's evaluation (cocoeval's areaRng)."""
FOUND = 0.5  # IoU of the accuracy by size


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """The share of answers whose IoU reaches a threshold."""

    threshold: float
    share: float
    ci: Interval


@dataclass(frozen=True, kw_only=True)
class SizeScore:
    """The answers to gold boxes of one size."""

    name: str
    n: int
    mean_iou: float
    accuracy: float  # share with an IoU of at least FOUND
    ci: Interval  # of the accuracy


@dataclass(frozen=True, kw_only=True)
class BoxTable:
    """The IoU of each answer, as a curve and by size."""

    n: int
    curve: tuple[CurvePoint, ...]
    sizes: tuple[SizeScore, ...]  # without the sizes that no gold box has
    unsized: int  # answers to samples whose picture's size is not stored

    def to_json(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "curve": [{"iou": p.threshold, "share": p.share, "ci": list(p.ci)} for p in self.curve],
            "sizes": {
                s.name: {
                    "n": s.n,
                    "mIoU": s.mean_iou,
                    f"Acc@{FOUND:g}": s.accuracy,
                    "ci": list(s.ci),
                }
                for s in self.sizes
            },
            "unsized": self.unsized,
        }

    def lines(self) -> list[str]:
        """The table as text: a few points of the curve, and each size."""
        points = (p for p in self.curve if p.threshold in PRINTED)
        shares = ", ".join(f"{p.threshold:g}: {100 * p.share:.1f}" for p in points)
        boxes = pluralize(self.n, "box", "boxes")
        lines = [f"{boxes}, percent with an IoU of at least {shares}"]
        for s in self.sizes:
            low, high = (100 * v for v in s.ci)
            lines.append(
                f"  {s.name:6}  n {s.n:<5d} mIoU {100 * s.mean_iou:6.2f}  Acc@{FOUND:g} {100 * s.accuracy:6.2f} "
                f"[{low:.2f}, {high:.2f}]"
            )
        if self.unsized and self.sizes:
            lines.append(f"  {pluralize(self.unsized, 'answer')} of pictures without a stored size")
        return lines


def make_box_table(records: Sequence[Record]) -> BoxTable | None:
    """The table of records whose strict grade is the IoU with the gold box; None without records."""
    if not records:
        return None
    by_size: dict[str, list[Record]] = {}
    for record in records:
        if (name := size_of(record)) is not None:
            by_size.setdefault(name, []).append(record)
    return BoxTable(
        n=len(records),
        curve=tuple(_point(records, t) for t in THRESHOLDS),
        sizes=tuple(_size(name, by_size[name]) for name in SIZES if name in by_size),
        unsized=len(records) - sum(map(len, by_size.values())),
    )


def size_of(record: Record) -> str | None:
    """Small, medium or large, by the `area` in pixels that the record's info has (of a mask), else by the area of the gold
    box in the picture of `size` pixels; None where the info has neither."""
    area, size = record.info.get("area"), record.info.get("size")
    if not isinstance(area, int | float) or not math.isfinite(area):
        if not is_box(record.answer) or not isinstance(size, list | tuple) or len(size) != 2:
            return None
        x1, y1, x2, y2 = record.answer
        area = (x2 - x1) * (y2 - y1) * size[0] * size[1] / THOUSAND**2
    return next(name for name, bound in SIZES.items() if area < bound)


def _point(records: Sequence[Record], threshold: float) -> CurvePoint:
    shares = _shares(records, threshold)
    ci, _ = metric_interval(shares)
    return CurvePoint(threshold=threshold, share=fmean(shares), ci=ci)


def _size(name: str, records: Sequence[Record]) -> SizeScore:
    shares = _shares(records, FOUND)
    ci, _ = metric_interval(shares)
    ious = [fmean(grades) for grades in _ious(records).values()]
    return SizeScore(name=name, n=len(records), mean_iou=fmean(ious), accuracy=fmean(shares), ci=ci)


def _shares(records: Sequence[Record], threshold: float) -> list[float]:
    """For each sample the share of its answers that reach the threshold."""
    return [
        fmean(float(reaches_threshold(iou, threshold)) for iou in ious)
        for ious in _ious(records).values()
    ]


def _ious(records: Sequence[Record]) -> Mapping[str, list[float]]:
    return grades_by_sample(records, STRICT)
