"""A question: messages, images, and the gold answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from PIL.Image import Image


class Slot(Enum):
    """Content of a message that is not text."""

    IMAGE = "image"


IMAGE = Slot.IMAGE
"""The place of the next image in the content of a message."""


Role = Literal["system", "user", "assistant", "plain"]


@dataclass(frozen=True, kw_only=True)
class Message:
    """One chat message; each `IMAGE` in its content is the place of the sample's next image."""

    role: Role
    """plain: the content as it is, without a chat template."""
    content: tuple[str | Slot, ...]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A question with its gold answer."""

    id: str
    messages: tuple[Message, ...]
    images: tuple[Image, ...] = ()  # RGB, in the order of the IMAGE slots
    answer: Any = None  # the gold answer, in the task's own form: "7", (x1, y1, x2, y2), …
    tags: Mapping[str, str] = field(default_factory=dict[str, str])  # such as {"kind": "count"}
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Data that only the pack's graders read."""
