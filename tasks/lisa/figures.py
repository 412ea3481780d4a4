"""Figures of grounding: by boxes, and by masks where the records hold polygons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlrft.boxes import Box, is_proper, rescaled
from vlrft.grading import read_answer, read_box
from vlrft.masks import overlap, paint, rectangle
from vlrft.metrics import accuracy, share_above
from vlrft.schema import Measure, Record


def measures(records: Sequence[Record], grader: str) -> Mapping[str, Measure]:
    """mIoU, Acc@0.5 and Acc@0.7 of the boxes; beside the strict ones gIoU (the mean IoU of masks) and
    cIoU (all intersections over all unions), the box filled as its mask."""
    found = {
        "mIoU": accuracy(records, grader, threshold=0.5),
        "Acc@0.5": share_above(records, grader, 0.5),
        "Acc@0.7": share_above(records, grader, 0.7),
    }
    if grader != "strict" or not all("shapes" in r.info for r in records):
        return found
    pairs = [_pixels(r) for r in records]

    def cumulative(places: Sequence[int]) -> float:
        union = sum(pairs[p][1] for p in places)
        return sum(pairs[p][0] for p in places) / union if union else 0.0

    ious = tuple(inside / union if union else 0.0 for inside, union in pairs)
    found["gIoU"] = Measure(values=ious, threshold=0.5)
    found["cIoU"] = Measure(values=ious, threshold=0.5, aggregate=cumulative)
    return found


def _pixels(record: Record) -> tuple[int, int]:
    """Intersection and union of the answer's box with the target."""
    width, height = record.info["size"]
    frame: tuple[float, float] = tuple(record.info.get("frame", (1000, 1000)))  # type: ignore[assignment]
    answer = read_answer(record.output)
    box: Box | None = read_box(answer) if answer else None
    said = None
    if box is not None and is_proper(box, *frame):
        said = rectangle(rescaled(box, frame, (width, height)), (width, height))
    return overlap(said, paint(record.info["shapes"], (width, height)))
