"""Reads the boxed answer of a completion, `\\boxed{…}`."""

from __future__ import annotations

from vlrft.grading.reading import MAX_ANSWER

_BOXES = ("\\boxed", "\\fbox")


def read_boxed(text: str) -> str | None:
    """The content of the last `\\boxed{…}` or `\\fbox{…}` after the thinking, stripped.

    None when there is no box, its braces do not balance, or it is empty or longer than MAX_ANSWER. Only the last box
    counts: where it is unfinished, an earlier one is not used instead. Linear time.
    """
    response = text.rpartition("</think>")[2]
    start = max(response.rfind(box) for box in _BOXES)
    if start < 0:
        return None
    name = next(box for box in _BOXES if response.startswith(box, start))
    window = response[start + len(name) :][: MAX_ANSWER + 100].lstrip()
    content = window[1 : _closing(window)].strip()
    return content if 0 < len(content) <= MAX_ANSWER else None


def strip_box(answer: str) -> str:
    """The answer without a box around the whole of it, and without dollar signs around that box."""
    bare = answer.strip().strip("$").strip()
    for name in _BOXES:
        rest = bare.removeprefix(name).lstrip()
        if bare.startswith(name) and _closing(rest) == len(rest) - 1:
            return rest[1:-1].strip()
    return answer


def _closing(text: str) -> int:
    """The index of the brace that closes the text's first character; 0 when that is no brace, or it never closes."""
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
