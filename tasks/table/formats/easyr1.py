"""EasyR1's rows: hiyouga/geometry3k and `prompt_key`, `answer_key`, `image_key` of its examples/config.yaml."""

from __future__ import annotations

from ..columns import cell_of
from ..entry import Raw
from ..messages import MARK
from ..shapes import Shape, has


def _shown_by(raw: Raw) -> str:
    marked = any(MARK in str(cell_of(row, "problem")) for row in raw.head)
    lists = any(isinstance(cell_of(row, "images"), list | tuple) for row in raw.head)
    if has(raw, "problem", "answer") and marked and lists:
        return "`problem` with <image>, beside `images` and `answer`"
    return ""


FORMAT = Shape(
    name="easyr1",
    doc="EasyR1: problem with <image>, images, answer",
    question="problem",
    answer="answer",
    images=("images",),
    shown_by=_shown_by,
)
