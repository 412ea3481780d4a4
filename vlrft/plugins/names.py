"""The wording of a wrong name, the same in every message: what is near, and which names there are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LIKENESS = 0.7  # of two names, from 0 to 1; a suggestion below it would mislead
MIN_PREFIX = 4  # letters of a name that another one begins with
MAX_NAMES = 20  # in a message


def unknown_name(kind: str, name: str, names: Iterable[str], most: int = MAX_NAMES) -> str:
    """`unknown task 'digit'; did you mean digits? known: counting, digits, …`; of more names than `most`, only the near one or
    none."""
    names = list(names)
    hint = did_you_mean(name, names)
    if len(names) > most:
        return f"unknown {kind} {name!r}{hint}"
    return f"unknown {kind} {name!r}{hint or ';'} known: {', '.join(names) or 'none'}"


def unknown_key(key: str, keys: Iterable[str]) -> str:
    """`unknown key; did you mean kl?`, or all keys that are allowed when none is near."""
    keys = list(keys)
    hint = did_you_mean(key, keys) or f"; allowed: {', '.join(keys)}"
    return f"unknown key{hint}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; did you mean digits?`, or nothing when no name is near."""
    close = nearest(name, names)
    return f"; did you mean {close}?" if close else ""


def nearest(name: str, names: Iterable[str], likeness: float = LIKENESS) -> str | None:
    """The name that is most like `name`, apart from case, has its letters in another order, or begins with it; None when none
    is near."""
    spelled = {known.lower(): known for known in reversed(list(names))}
    close = get_close_matches(name.lower(), list(spelled), 1, likeness)
    if not close:
        close = [known for known in spelled if sorted(known) == sorted(name.lower())]
    if not close and len(name) >= MIN_PREFIX:
        close = [known for known in reversed(spelled) if known.startswith(name.lower())]
    return spelled[close[0]] if close else None
