"""A question: messages, images, and the gold answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from PIL.Image import Image


class Slot(Enum):
    """What stands in a message besides text."""

    IMAGE = "image"


IMAGE = Slot.IMAGE


@dataclass(frozen=True, kw_only=True)
class Message:
    """One chat message; `IMAGE` marks where the next of the sample's images stands."""

    role: Literal[
        "system", "user", "assistant", "plain"
    ]  # plain: as it stands, without a chat template
    content: tuple[str | Slot, ...]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A question with its gold answer."""

    id: str
    messages: tuple[Message, ...]
    images: tuple[Image, ...] = ()  # RGB, in the order of the IMAGE slots
    answer: Any = None  # in the task's own form: "7", (x1, y1, x2, y2), …
    tags: Mapping[str, str] = field(default_factory=dict[str, str])  # such as {"kind": "count"}
    info: Mapping[str, Any] = field(
        default_factory=dict[str, Any]
    )  # what only the pack's graders read
