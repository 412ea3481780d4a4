"""The special tokens with which Qwen models mark boxes and what they belong to. Completions keep them; see `without_markup`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from vlrft.schema import Sample

T = TypeVar("T")

REF_START, REF_END, BOX_START, BOX_END, QUAD_START, QUAD_END = MARKUP = tuple(
    f"<|{kind}_{edge}|>" for kind in ("object_ref", "box", "quad") for edge in ("start", "end")
)


def without_markup(text: str) -> str:
    """The text as a decoder that skips special tokens gives it."""
    for token in MARKUP:
        text = text.replace(token, "")
    return text


def ignores_markup(grade: Callable[[str, Sample], T]) -> Callable[[str, Sample], T]:
    """A released reward function, which grades text without special tokens, for completions that keep the markup."""

    @wraps(grade)
    def graded(completion: str, sample: Sample) -> T:
        return grade(without_markup(completion), sample)

    return graded
