"""Conversations of human and gpt: LLaVA (docs/Finetune_Custom_Data.md), VLM-R1 (README), LLaMA-Factory's sharegpt."""

from __future__ import annotations

from functools import partial

from ..entry import Raw
from ..shapes import Shape, ends_with_reply, has, talks

COLUMN = "conversations"


def _shown_by(raw: Raw, image: str, other: str) -> str:
    """`image` is there and `other` is not, so that the two names of this form are never both found."""
    if has(raw, other) or not talks(raw, COLUMN, "from") or not ends_with_reply(raw, COLUMN):
        return ""
    if image == "image" or has(raw, image):
        return f"`{COLUMN}` with `from` and `value`, beside `{image}`"
    return ""


FORMAT = (
    Shape(
        name="llava",
        doc="LLaVA, VLM-R1: id, image, conversations (from: human and gpt, value)",
        question=COLUMN,
        shown_by=partial(_shown_by, image="image", other="images"),
    ),
    Shape(
        name="sharegpt",
        doc="ShareGPT, LLaMA-Factory: conversations (from: human and gpt, value), images, system",
        question=COLUMN,
        shown_by=partial(_shown_by, image="images", other="image"),
    ),
)
