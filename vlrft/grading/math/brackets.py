"""Brackets among tokens: whether they balance, and what stands outside of them."""

from __future__ import annotations

OPEN = {
    "(": ")",
    "[": "]",
    "{": "}",
    r"\{": r"\}",
    r"\langle": r"\rangle",
    r"\lfloor": r"\rfloor",
    r"\lceil": r"\rceil",
}
CLOSE = set(OPEN.values())


def balanced(reading: list[str]) -> bool:
    """Whether brackets close in pairs; a half-open interval may close with the other one."""
    stack: list[str] = []
    for token in reading:
        if token in OPEN:
            stack.append(token)
        elif token in CLOSE:
            if not stack:
                return False
            opened = stack.pop()
            if OPEN[opened] != token and not (opened in "([" and token in ")]"):
                return False
    return not stack


def split(reading: list[str], separators: tuple[str, ...]) -> list[list[str]]:
    """The parts between separators that stand outside of brackets and environments."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in reading:
        depth += (token in OPEN or token.startswith(r"\begin")) - (
            token in CLOSE or token.startswith(r"\end")
        )
        if depth == 0 and token in separators:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def closes_early(reading: list[str]) -> bool:
    """Whether the first bracket closes before the last token: `(1)(2)`."""
    depth = 0
    for place, token in enumerate(reading):
        depth += (token in OPEN) - (token in CLOSE)
        if depth == 0:
            return place < len(reading) - 1
    return True
