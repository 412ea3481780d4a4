"""The message of a foreign exception as one short line, to be quoted in our own messages."""

from __future__ import annotations

MAX_MESSAGE = 200  # characters


def first_line(error: Exception) -> str:
    """The first line of the exception's message."""
    return (str(error).splitlines() or ["no message"])[0][:MAX_MESSAGE]


def short_message(error: Exception) -> str:
    """The exception's type and the first line of its message."""
    return f"{type(error).__name__}: {first_line(error)}"
