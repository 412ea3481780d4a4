"""verl's rows, as its examples/data_preprocess/geo3k.py writes them."""

from __future__ import annotations

from ..entry import Raw
from ..shapes import Shape, has, talks

GOLD = "reward_model.ground_truth"


def _shown_by(raw: Raw) -> str:
    if has(raw, "data_source", GOLD) and talks(raw, "prompt", "role"):
        return f"`data_source`, and `{GOLD}` beside a conversation in `prompt`"
    return ""


FORMAT = Shape(
    name="verl",
    doc="verl: data_source, prompt (a conversation), images, reward_model.ground_truth, extra_info",
    question="prompt",
    answer=GOLD,
    shown_by=_shown_by,
)
