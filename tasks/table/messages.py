"""Conversations in the cells of a table: lists of messages with `role` and `content`, or with `from` and `value`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vlrft.schema.sample import Role
from vlrft.vision.qwen_messages import is_image_part

MARK = "<image>"
ROLES: Mapping[str, Role] = {
    "system": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "model": "assistant",
}
PICTURE_PARTS = ("image", "image_url")


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """A conversation as a question: the last message of the user, those before it, and the reply."""

    question: str
    context: tuple[tuple[Role, str], ...]
    reply: str | None
    """The assistant's last message, where the conversation ends with it."""
    pictures: tuple[Any, ...]
    """The image parts of its messages, in their order, as `PictureFinder.find` takes them."""


def is_conversation(cell: Any) -> bool:
    """Whether a cell is a list of messages."""
    return (
        isinstance(cell, list | tuple)
        and bool(cell)
        and all(isinstance(m, Mapping) and ("role" in m or "from" in m) for m in cell)
    )


def read_conversation(cell: Any) -> Conversation:
    """The conversation of a cell. Raises ValueError for one without a question, with an unknown role, or with other parts than
    text and pictures."""
    if not is_conversation(cell):
        raise ValueError("expected a list of messages with role and content, or from and value")
    pictures: list[Any] = []
    turns: list[tuple[Role, str]] = []
    for message in cell:
        name = str(message.get("role", message.get("from")))
        if name not in ROLES:
            raise ValueError(f"unknown role {name!r}; known: {', '.join(ROLES)}")
        turns.append((ROLES[name], _text(message.get("content", message.get("value")), pictures)))
    reply = turns.pop()[1] if turns[-1][0] == "assistant" else None
    if not turns or turns[-1][0] != "user":
        raise ValueError(
            "its conversation has no question: no message of the user before the reply"
        )
    return Conversation(
        question=turns[-1][1], context=tuple(turns[:-1]), reply=reply, pictures=tuple(pictures)
    )


def _text(content: Any, pictures: list[Any]) -> str:
    """The text of a message, with a mark for each picture, whose cell is added to `pictures`."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        raise ValueError(
            f"a message whose content is {type(content).__name__}, neither text nor parts"
        )
    texts: list[str] = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "text":
            texts.append(str(part.get("text") or ""))
        elif kind in PICTURE_PARTS:
            texts.append(MARK)
            if is_image_part(
                part
            ):  # with the size that it states; otherwise the mark of a picture in a column
                pictures.append(part)
        else:
            raise ValueError(f"a part of type {kind!r} in a message; only text and image are read")
    return "".join(texts)
