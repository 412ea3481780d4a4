"""math-verify by itself, as a worker process imports it."""

from __future__ import annotations

import logging
from importlib import import_module

logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns of the lack of SIGALRM
LIBRARY = import_module("math_verify")  # has no types


def verified(gold: str, answer: str) -> bool:
    """Whether math-verify takes the two for one answer, both as LaTeX and with its own defaults."""
    sides = [
        LIBRARY.parse(f"${text.strip().strip('$')}$", parsing_timeout=None)
        for text in (gold, answer)
    ]
    return bool(LIBRARY.verify(*sides, timeout_seconds=None))


def value(gold: str) -> complex | None:
    """The number that it reads from a bare gold answer, None for none."""
    found = LIBRARY.parse(gold, parsing_timeout=None)
    return complex(found[0]) if found else None
