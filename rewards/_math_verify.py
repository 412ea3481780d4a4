"""math-verify as the released graders call it, but without its own time limits, which need the main thread."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from vlrft.grading import sandboxed_worker

T = TypeVar("T")

SECONDS = 10.0  # for one completion: twice the default limit of math-verify
MAX_CHARACTERS = (
    500_000  # of a completion; no policy writes as many, and few such texts are read in time
)
LIBRARIES = ("math_verify:parse", "mpmath:mp")  # imported before the time starts


def in_worker(function: Callable[..., T], completion: str, *arguments: Any) -> T | None:
    """The function of the completion and the arguments, called in the worker; None where it exceeds a limit on time
    or memory, or the completion is longer than MAX_CHARACTERS."""
    if len(completion) > MAX_CHARACTERS:
        return None
    return sandboxed_worker().call(function, (completion, *arguments), SECONDS, LIBRARIES)


def library() -> Any:
    """The module `math_verify`, without its warning that SIGALRM is not used."""
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    return importlib.import_module("math_verify")  # has no types


def parse(text: str, **settings: Any) -> list[Any]:
    """math-verify's `parse` without a time limit."""
    parsed: list[Any] = library().parse(text, parsing_timeout=None, **settings)
    return parsed


def verify(first: list[Any], second: list[Any], **settings: Any) -> bool:
    """math-verify's `verify` without a time limit."""
    return bool(library().verify(first, second, timeout_seconds=None, **settings))
