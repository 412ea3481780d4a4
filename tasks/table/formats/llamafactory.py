"""LLaMA-Factory's messages (data/mllm_demo.json), which are those of the OpenAI format and of ms-swift without objects."""

from __future__ import annotations

from ..entry import Raw
from ..shapes import Shape, ends_with_reply, has, talks


def _shown_by(raw: Raw) -> str:
    if has(raw, "objects") or not talks(raw, "messages", "role"):
        return ""
    if not ends_with_reply(raw, "messages"):
        return ""
    return "`messages` with `role` and `content`, the last of the assistant"


FORMAT = Shape(
    name="llamafactory",
    doc="LLaMA-Factory, OpenAI: messages (role, content) that end with the answer, images",
    question="messages",
    shown_by=_shown_by,
)
