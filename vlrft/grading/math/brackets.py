"""Brackets among tokens: whether they balance, and splitting outside of them."""

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
MAX_DEPTH = 40


def is_balanced(tokens: list[str]) -> bool:
    """Whether brackets close in pairs, and are at most MAX_DEPTH deep; `(` may close with `]` and `[` with `)`, as in a half-open interval."""
    stack: list[str] = []
    for token in tokens:
        if token in OPEN:
            stack.append(token)
            if len(stack) > MAX_DEPTH:
                return False
        elif token in CLOSE:
            if not stack:
                return False
            opening = stack.pop()
            if OPEN[opening] != token and not (opening in "([" and token in ")]"):
                return False
    return not stack


def split_top_level(tokens: list[str], separators: tuple[str, ...]) -> list[list[str]]:
    """The parts between those separators that are outside of all brackets and environments."""
    if not any(separator in tokens for separator in separators):
        return [tokens]
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in OPEN or token.startswith(r"\begin")) - (
            token in CLOSE or token.startswith(r"\end")
        )
        if depth == 0 and token in separators:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def closes_early(tokens: list[str]) -> bool:
    """Whether the first bracket closes before the last token: `(1)(2)`."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token in OPEN) - (token in CLOSE)
        if depth == 0:
            return place < len(tokens) - 1
    return True
