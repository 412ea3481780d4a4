"""The row of a picture and a category, with the category's objects in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vlrft.data import Picture, Row
from vlrft.vision.boxes import Box, rescale

NONE = "No Objects"  # the answer where there are none, as released


@dataclass(frozen=True, kw_only=True)
class Target:
    """An object of a picture."""

    box: Box  # in pixels
    area: float  # in pixels; its size is judged by it
    crowd: bool = False  # a box around many objects, which is neither a hit nor a miss

    def to_json(self) -> dict[str, Any]:
        return {"box": list(self.box), "area": self.area, "crowd": self.crowd}


def make_row(
    name: str,
    split: str,
    picture: Picture,
    size: tuple[int, int],
    category: str,
    targets: Sequence[Target],
    problem: str = "",
    missed: Sequence[Sequence[Target]] = (),
) -> Row:
    """The row. Its gold answer is in whole thousandths; the exact boxes are in its info, with those of crowds. `problem`: the
    question as the data have it. `missed`: objects of other pictures that no row asks for, and that count as missed."""
    return Row(
        id=name,
        question=category,
        answer=[_to_thousandths(t.box, size) for t in targets if not t.crowd],
        pictures=(picture,),
        tags={"answer": "boxes", "category": category},
        info={
            "split": split,
            "size": list(size),
            "objects": [target.to_json() for target in targets],
            "problem": problem,
            "none": NONE,
            **({"missed": [[t.to_json() for t in others] for others in missed]} if missed else {}),
        },
    )


def _to_thousandths(box: Box, size: tuple[int, int]) -> list[int]:
    """The box in whole thousandths; a thin one is at least one thousandth wide and high."""
    x1, y1, x2, y2 = (round(v) for v in rescale(box, size, (1000, 1000)))
    x1, y1 = min(max(x1, 0), 999), min(max(y1, 0), 999)
    return [x1, y1, min(max(x2, x1 + 1), 1000), min(max(y2, y1 + 1), 1000)]
