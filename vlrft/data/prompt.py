"""Prompts as text files of a pack, word for word; `<image>` marks where a picture stands. And what a row then asks."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from vlrft.data.row import Row
from vlrft.schema import IMAGE, Message, Sample, Slot

MARK = "<image>"


@cache
def read_prompt(pack: str, name: str) -> str:
    """`prompts/NAME.txt` beside the pack's file (give its `__file__`), without the last line break."""
    text = (Path(pack).parent / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
    return text.removesuffix("\n")


def content(text: str) -> tuple[str | Slot, ...]:
    """Text with a picture wherever the mark stands."""
    parts: list[str | Slot] = []
    for k, piece in enumerate(text.split(MARK)):
        parts += ([IMAGE] if k else []) + ([piece] if piece else [])
    return tuple(parts)


def asked(row: Row, said: tuple[str | Slot, ...]) -> Sample:
    """The row as a sample, without its images: the user says one thing."""
    message = Message(role="user", content=said)
    return Sample(id=row.id, messages=(message,), answer=row.answer, tags=row.tags, info=row.info)
