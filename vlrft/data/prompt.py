"""Prompts as text files of a pack, read verbatim, and samples made from them. `<image>` marks the place of an image."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from vlrft.data.row import Row
from vlrft.schema import IMAGE, Message, Sample, Slot

MARK = "<image>"


@cache
def read_prompt(pack: str, name: str) -> str:
    """`prompts/NAME.txt` in the folder of the file `pack` (pass `__file__`), without its last line break."""
    text = (Path(pack).parent / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
    return text.removesuffix("\n")


def fill_prompt(text: str, **values: str) -> str:
    """The text with each `{name}` replaced by the value of that name, in one pass: braces in a value are text."""
    return re.sub(r"\{(\w+)\}", lambda place: values.get(place[1], place[0]), text)


def split_at_images(text: str) -> tuple[str | Slot, ...]:
    """The content of a message: the text with `IMAGE` in place of each mark."""
    parts: list[str | Slot] = []
    for k, piece in enumerate(text.split(MARK)):
        parts += ([IMAGE] if k else []) + ([piece] if piece else [])
    return tuple(parts)


def user_sample(row: Row, content: tuple[str | Slot, ...]) -> Sample:
    """The row as a sample with a single user message; its images are not loaded."""
    message = Message(role="user", content=content)
    return Sample(id=row.id, messages=(message,), answer=row.answer, tags=row.tags, info=row.info)
