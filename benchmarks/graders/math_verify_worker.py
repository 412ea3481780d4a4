"""math-verify with its default settings, imported by a worker process."""

from __future__ import annotations

import logging
from importlib import import_module

logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that SIGALRM is unavailable
LIBRARY = import_module("math_verify")  # has no types


def verify(gold: str, answer: str) -> bool:
    """Whether math-verify takes the two answers for equal, both as LaTeX and with its default settings."""
    sides = [
        LIBRARY.parse(f"${text.strip().strip('$')}$", parsing_timeout=None)
        for text in (gold, answer)
    ]
    return bool(LIBRARY.verify(*sides, timeout_seconds=None))


def parse_value(gold: str) -> complex | None:
    """The number that math-verify reads from a bare gold answer; None: no number."""
    parsed = LIBRARY.parse(gold, parsing_timeout=None)
    return complex(parsed[0]) if parsed else None
