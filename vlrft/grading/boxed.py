"""Reads a boxed answer, `\\boxed{…}`, out of a completion."""

from __future__ import annotations

from vlrft.grading.reading import MAX_ANSWER

_BOXES = ("\\boxed", "\\fbox")


def read_boxed(text: str) -> str | None:
    """What the last `\\boxed{…}` or `\\fbox{…}` behind the thinking holds, stripped.

    None when there is none, or its braces do not balance, or it is empty or longer than MAX_ANSWER.
    The last box decides: an unfinished one does not give way to one before it. Linear time.
    """
    spoken = text.rpartition("</think>")[2]
    start = max(spoken.rfind(box) for box in _BOXES)
    if start < 0:
        return None
    name = next(box for box in _BOXES if spoken.startswith(box, start))
    window = spoken[start + len(name) :][: MAX_ANSWER + 100].lstrip()
    content = window[1 : _closing(window)].strip()
    return content if 0 < len(content) <= MAX_ANSWER else None


def unboxed(answer: str) -> str:
    """The answer without the box, and dollar signs around it, that may hold the whole of it."""
    bare = answer.strip().strip("$").strip()
    for name in _BOXES:
        rest = bare.removeprefix(name).lstrip()
        if bare.startswith(name) and _closing(rest) == len(rest) - 1:
            return rest[1:-1].strip()
    return answer


def _closing(text: str) -> int:
    """Where the brace closes that the text opens with; 0 when it opens with none or never closes."""
    depth = 0
    escaped = False
    for place, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
        if depth == 0:
            return place
    return 0
