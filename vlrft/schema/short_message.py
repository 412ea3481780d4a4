"""An exception of foreign code as one short line, to be quoted in our messages."""

from __future__ import annotations

MAX_MESSAGE = 200  # characters of the foreign message


def short_message(error: Exception) -> str:
    """The exception's type and the first line of its message."""
    first_line = (str(error).splitlines() or ["no message"])[0][:MAX_MESSAGE]
    return f"{type(error).__name__}: {first_line}"
