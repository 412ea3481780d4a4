"""A question: messages, images, and the gold answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from PIL.Image import Image

    from vlrft.schema.frames import Frames


class Slot(Enum):
    """Content of a message that is not text."""

    IMAGE = "image"
    VIDEO = "video"


IMAGE = Slot.IMAGE
"""The place of the next image in the content of a message."""
VIDEO = Slot.VIDEO
"""The place of the next video in the content of a message."""


Role = Literal["system", "user", "assistant", "plain"]


@dataclass(frozen=True, kw_only=True)
class Message:
    """One chat message; each `IMAGE` in its content is the place of the sample's next image, each `VIDEO` of its next video."""

    role: Role
    """plain: the content as it is, without a chat template."""
    content: tuple[str | Slot, ...]


def count_slots(messages: Iterable[Message], slot: Slot) -> int:
    """The number of places of images or of videos in messages."""
    return sum(part is slot for message in messages for part in message.content)


def part_text(part: str | Slot) -> str:
    """A part of a message as logs and reports show it: `<image>` and `<video>` in their places."""
    return f"<{part.value}>" if isinstance(part, Slot) else part


@dataclass(frozen=True, kw_only=True)
class Example:
    """A question with its answer, which a conversation shows before its own question."""

    messages: tuple[Message, ...]  # the last one is the answer
    images: tuple[Image, ...] = ()
    videos: tuple[Frames, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A question with its gold answer."""

    id: str
    messages: tuple[Message, ...]
    images: tuple[Image, ...] = ()  # RGB, in the order of the IMAGE slots
    videos: tuple[Frames, ...] = ()  # in the order of the VIDEO slots
    answer: Any = None  # the gold answer, in the task's own form: "7", (x1, y1, x2, y2), …
    tags: Mapping[str, str] = field(default_factory=dict[str, str])  # such as {"kind": "count"}
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Data that only the pack's graders read."""
    thought: str = ""
    """The reasoning before the gold answer, in `<think>` where the answer has it. It is part of the gold answer that
    `sft` teaches, and of examples and injected gold answers."""
    examples: tuple[Example, ...] = ()
    """Shown before the question; no grader reads them."""
    rollout: int = 0
    """The number within its group, from 0, of the rollout that an environment is built for; 0 everywhere else."""

    @property
    def shown_messages(self) -> tuple[Message, ...]:
        """The messages as the policy reads them: the examples come after the system messages that begin the sample's own."""
        if not self.examples:
            return self.messages
        opening = self.opening
        examples = (message for example in self.examples for message in example.messages)
        return (*opening, *examples, *self.messages[len(opening) :])

    @property
    def shown_images(self) -> tuple[Image, ...]:
        """The images of `shown_messages`, in the order of their places."""
        if not self.examples:
            return self.images
        first = count_slots(self.opening, IMAGE)
        examples = (image for example in self.examples for image in example.images)
        return (*self.images[:first], *examples, *self.images[first:])

    @property
    def shown_videos(self) -> tuple[Frames, ...]:
        """The videos of `shown_messages`, in the order of their places."""
        if not self.examples:
            return self.videos
        first = count_slots(self.opening, VIDEO)
        examples = (video for example in self.examples for video in example.videos)
        return (*self.videos[:first], *examples, *self.videos[first:])

    @property
    def opening(self) -> tuple[Message, ...]:
        """The system messages that begin the sample's own."""
        return tuple(takewhile(lambda message: message.role == "system", self.messages))
