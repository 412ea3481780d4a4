"""TRL's conversational prompts with the columns that its reward functions get (docs/source/dataset_formats.md, grpo_vlm.py)."""

from __future__ import annotations

from ..entry import Raw
from ..shapes import Shape, has, talks


def _shown_by(raw: Raw) -> str:
    if has(raw, "data_source", "reward_model") or not has(raw, "solution"):
        return ""
    return "`prompt` is a conversation, beside `solution`" if talks(raw, "prompt", "role") else ""


FORMAT = Shape(
    name="trl",
    doc="TRL: prompt (a conversation), image or images, solution",
    question="prompt",
    answer="solution",
    shown_by=_shown_by,
)
