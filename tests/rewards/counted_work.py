"""The work of a grader on a text, in exact counts: lines of Python, and characters that methods of `str` go over.

Patterns are not counted here: tests/grading/test_patterns.py shows how their time grows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
COUNTED = (str(ROOT / "rewards"), str(ROOT / "vlrft" / "grading"), str(ROOT / "vlrft" / "vision"))

_FINDS = ("find", "index", "rfind", "rindex")
_READS = (
    *("casefold", "count", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace"),
    *("rpartition", "rsplit", "rstrip", "split", "splitlines", "strip", "translate", "upper"),
)  # fmt: skip


class CountedText(str):
    """A text that counts the characters that its methods go over, and those of the texts made from it."""

    work = 0

    def __getitem__(self, key: Any) -> str:
        part: str = _counted(str.__getitem__(self, key), 1)
        return part

    def __contains__(self, part: object) -> bool:
        found = str.find(self, part)  # type: ignore[arg-type]
        CountedText.work += len(self) if found < 0 else found + 1
        return found >= 0


def _counted(value: Any, work: int) -> Any:
    CountedText.work += work
    if type(value) is str:
        return CountedText(value)
    if isinstance(value, list | tuple):
        return type(value)(CountedText(part) for part in value)
    return value


def _reading(name: str) -> Callable[..., Any]:
    method = getattr(str, name)

    def read(self: str, *arguments: Any) -> Any:
        return _counted(method(self, *arguments), len(self))

    return read


def _finding(name: str) -> Callable[..., int]:
    method = getattr(str, name)

    def find(self: str, part: str, start: int = 0, end: int | None = None) -> int:
        place: int = method(self, part, start, end)
        low, high, _ = slice(start, end).indices(len(self))
        unread = (place - low if not name.startswith("r") else high - place) if place >= 0 else None
        CountedText.work += max(0, high - low) if unread is None else unread + len(part)
        return place

    return find


for _name in _READS:
    setattr(CountedText, _name, _reading(_name))
for _name in _FINDS:
    setattr(CountedText, _name, _finding(_name))


def count_work(function: Callable[[str], Any], text: str) -> int:
    """Lines of graders run and characters gone over in one call."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace if frame.f_code.co_filename.startswith(COUNTED) else None

    CountedText.work = 0
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(CountedText(text))
    finally:
        sys.settrace(before)
    return lines + CountedText.work
