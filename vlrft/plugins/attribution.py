"""Errors of code that is not ours, in the words of whoever has to find them: which part of which plugin, and where."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vlrft.schema.errors import DataError, VlrftError
from vlrft.schema.short_message import short_message


def describe_raise(error: BaseException) -> str:
    """The error, and the file and line that raised it: a predicate."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"raised {short_message(error)}{place}"


@contextmanager
def attributed(subject: str, kind: type[VlrftError] = DataError) -> Iterator[None]:
    """Runs a plugin's code: an exception that is not one of ours, also SystemExit, becomes an error of this kind whose
    message begins with the subject. Ctrl-C passes through, and so do a lack of memory and a missing package."""
    try:
        yield
    except (KeyboardInterrupt, VlrftError, MemoryError, ImportError):
        raise
    except BaseException as e:
        raise kind(f"{subject} {describe_raise(e)}") from e
