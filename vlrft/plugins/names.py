"""The wording of a wrong name, the same in every message: what is near, and which names there are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def unknown_name(kind: str, name: str, names: Iterable[str]) -> str:
    """`unknown task 'digit'; did you mean digits? known: counting, digits, …`."""
    names = list(names)
    hint = did_you_mean(name, names) or ";"
    return f"unknown {kind} {name!r}{hint} known: {', '.join(names) or 'none'}"


def unknown_key(key: str, keys: Iterable[str]) -> str:
    """`unknown key; did you mean kl?`, or all keys that are allowed when none is near."""
    keys = list(keys)
    hint = did_you_mean(key, keys) or f"; allowed: {', '.join(keys)}"
    return f"unknown key{hint}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; did you mean digits?`, or nothing when no name is near."""
    close = get_close_matches(name, list(names), 1)
    return f"; did you mean {close[0]}?" if close else ""
