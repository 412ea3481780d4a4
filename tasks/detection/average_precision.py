"""Average precision as COCO defines it, by pycocotools: the value over all samples, and over resamples for its interval.

COCOeval matches the boxes of every picture and category once. The precision of a resample is that of the same matches, each
counted as often as its sample was drawn, so that an interval takes seconds; over all samples it equals COCOeval's own figure.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlrft.schema.errors import PluginError
from vlrft.vision.boxes import Box

SIZES = ("all", "small", "medium", "large")  # COCOeval's areas, in its order
MOST = 100  # boxes of a picture and category that count, those of the highest confidence


@dataclass(frozen=True, kw_only=True)
class Graded:
    """One answer: the boxes that it gives, and the objects that are there; boxes in pixels, (x1, y1, x2, y2)."""

    category: str
    objects: Sequence[Mapping[str, Any]]  # box, area, crowd
    detections: Sequence[tuple[Box, float]]


@dataclass(frozen=True, kw_only=True)
class Matches:
    """The matches of the boxes of one category, and of one range of areas, in order of falling confidence."""

    answers: NDArray[np.int64]  # [D] the answer that each box is of
    hits: NDArray[np.bool_]  # [T, D] matched at each IoU threshold
    counted: NDArray[np.bool_]  # [T, D] neither out of the range of areas nor matched to a crowd
    objects: NDArray[np.int64]  # [A] objects of each answer

    def precision(self, weights: NDArray[np.int64], recalls: NDArray[np.float64]) -> Any:
        """[T] the mean precision over the recalls, each answer counted `weights` times; None where no object is."""
        total = int((weights * self.objects).sum())
        if not total:
            return None
        if not len(self.answers):
            return np.zeros(len(self.hits))
        times = weights[self.answers] * self.counted
        right = np.cumsum(times * self.hits, axis=1)
        wrong = np.cumsum(times * ~self.hits, axis=1)
        recall = right / total
        precise = right / np.maximum(right + wrong, np.spacing(1))
        precise = np.maximum.accumulate(precise[:, ::-1], axis=1)[:, ::-1]
        means = np.zeros(len(self.hits))
        for k, (levels, values) in enumerate(zip(recall, precise, strict=True)):
            places = np.searchsorted(levels, recalls, side="left")
            reached = places[places < len(values)]
            means[k] = values[reached].sum() / len(recalls)
        return means


@dataclass(frozen=True)
class AveragePrecision:
    """The average precisions of answers."""

    graded: Sequence[Graded]
    resampled: dict[bytes, Any] = field(default_factory=dict[bytes, Any])

    @cached_property
    def categories(self) -> list[str]:
        return list(dict.fromkeys(g.category for g in self.graded))

    @cached_property
    def evaluation(self) -> Any:
        """A COCOeval that has matched all boxes. Each answer is a picture of its own: AP is computed by category, and an
        answer has one."""
        require_pycocotools()
        categories = {name: k for k, name in enumerate(self.categories, 1)}
        truth = import_module("pycocotools.coco").COCO()
        truth.dataset = {
            "images": [{"id": k} for k in range(1, len(self.graded) + 1)],
            "categories": [{"id": k, "name": name} for name, k in categories.items()],
            "annotations": [
                {
                    "image_id": k,
                    "category_id": categories[g.category],
                    "bbox": _corner_and_size(thing["box"]),
                    "area": thing["area"],
                    "iscrowd": int(thing["crowd"]),
                }
                for k, g in enumerate(self.graded, 1)
                for thing in g.objects
            ],
        }
        for number, annotation in enumerate(truth.dataset["annotations"], 1):
            annotation["id"] = number
        found = [
            {
                "image_id": k,
                "category_id": categories[g.category],
                "bbox": _corner_and_size(box),
                "score": confidence,
            }
            for k, g in enumerate(self.graded, 1)
            for box, confidence in g.detections
        ]
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its progress
            truth.createIndex()
            results = truth.loadRes(found) if found else import_module("pycocotools.coco").COCO()
            evaluation = import_module("pycocotools.cocoeval").COCOeval(truth, results, "bbox")
            if not found:
                evaluation.cocoDt.dataset = {**truth.dataset, "annotations": []}
                evaluation.cocoDt.createIndex()
            evaluation.evaluate()
            evaluation.accumulate()
        return evaluation

    def value(self, size: str, iou: float | None = None, category: str | None = None) -> float:
        """COCOeval's average precision; −1 where there is no object of the size. `iou`: at this threshold alone."""
        precision = self.evaluation.eval["precision"]  # [T, R, K, A, M]
        if iou is not None:
            precision = precision[self.evaluation.params.iouThrs == iou]
        kinds = slice(None) if category is None else [self.categories.index(category)]
        values = precision[:, :, kinds, SIZES.index(size), -1]
        values = values[values > -1]
        return float(values.mean()) if values.size else -1.0

    def resample(
        self,
        weights: NDArray[np.int64],
        size: str,
        iou: float | None = None,
        category: str | None = None,
    ) -> float:
        """The average precision with each answer counted `weights` times; that of all answers where these have no object."""
        key = weights.tobytes()
        if key not in self.resampled:
            self.resampled[key] = self._precisions(weights)
        table = self.resampled[key][SIZES.index(size)]  # [K, T], NaN without objects
        if category is not None:
            table = table[[self.categories.index(category)]]
        if iou is not None:
            table = table[:, self.evaluation.params.iouThrs == iou]
        values = table[~np.isnan(table)]
        return float(values.mean()) if values.size else self.value(size, iou, category)

    def _precisions(self, weights: NDArray[np.int64]) -> NDArray[np.float64]:
        recalls = self.evaluation.params.recThrs
        thresholds = len(self.evaluation.params.iouThrs)
        table = np.full((len(SIZES), len(self.categories), thresholds), np.nan)
        for (area, kind), matches in self.matches.items():
            means = matches.precision(weights, recalls)
            if means is not None:
                table[area, kind] = means
        return table

    @cached_property
    def matches(self) -> Mapping[tuple[int, int], Matches]:
        """By the indices of a range of areas and of a category, of those that have objects."""
        evaluation = self.evaluation
        pictures = len(evaluation.params.imgIds)
        table: dict[tuple[int, int], Matches] = {}
        for area in range(len(SIZES)):
            for kind in range(len(self.categories)):
                start = (kind * len(SIZES) + area) * pictures
                found = evaluation.evalImgs[start : start + pictures]
                matches = _matches(found, len(evaluation.params.iouThrs))
                if matches.objects.any():
                    table[area, kind] = matches
        return table


def require_pycocotools() -> None:
    """Raises PluginError where it is not installed."""
    if find_spec("pycocotools") is None:
        raise PluginError(
            "detection is measured by pycocotools, which is not installed: pip install 'vlrft[detection]'"
        )


def _matches(pictures: Sequence[Any], thresholds: int) -> Matches:
    """The matches of COCOeval's results of one category and range of areas; None for a picture without boxes or objects."""
    objects = np.zeros(len(pictures), dtype=np.int64)
    parts: list[tuple[Any, Any, Any, Any]] = []
    for number, picture in enumerate(pictures):
        if picture is None:
            continue
        objects[number] = np.count_nonzero(np.asarray(picture["gtIgnore"]) == 0)
        scores = np.asarray(picture["dtScores"][:MOST], dtype=np.float64)
        hits = np.asarray(picture["dtMatches"], dtype=bool)[:, :MOST]
        ignored = np.asarray(picture["dtIgnore"], dtype=bool)[:, :MOST]
        parts.append((scores, hits, ignored, np.full(len(scores), number)))
    if not parts:
        empty = np.zeros((thresholds, 0), dtype=bool)
        none = np.zeros(0, dtype=np.int64)
        return Matches(answers=none, hits=empty, counted=empty, objects=objects)
    scores = np.concatenate([part[0] for part in parts])
    order = np.argsort(-scores, kind="mergesort")  # as COCOeval sorts
    return Matches(
        answers=np.concatenate([part[3] for part in parts])[order],
        hits=np.concatenate([part[1] for part in parts], axis=1)[:, order],
        counted=~np.concatenate([part[2] for part in parts], axis=1)[:, order],
        objects=objects,
    )


def _corner_and_size(box: Sequence[float]) -> list[float]:
    x1, y1, x2, y2 = box
    return [x1, y1, x2 - x1, y2 - y1]
