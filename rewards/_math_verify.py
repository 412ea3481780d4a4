"""math-verify as the released graders call it, but for its own time limits: those take the main thread."""

from __future__ import annotations

import importlib
import logging
from typing import Any

SECONDS = 10.0  # for one completion: two default limits of math-verify
NEEDS = ("math_verify:parse", "mpmath:mp")  # imported before the time starts


def library() -> Any:
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns of the lack of SIGALRM
    return importlib.import_module("math_verify")  # has no types


def parse(text: str, **settings: Any) -> list[Any]:
    found: list[Any] = library().parse(text, parsing_timeout=None, **settings)
    return found


def verify(first: list[Any], second: list[Any], **settings: Any) -> bool:
    return bool(library().verify(first, second, timeout_seconds=None, **settings))
