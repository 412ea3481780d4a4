"""The message of a foreign exception as one short line, to be quoted in our own messages."""

from __future__ import annotations

MAX_MESSAGE = 200  # characters


def first_line(error: BaseException) -> str:
    """The first line of the exception's message."""
    try:
        text = str(error)
    except BaseException as e:  # the class of a foreign exception may break any rule
        text = f"no message: its __str__ raised {type(e).__name__}"
    return (text.splitlines() or ["no message"])[0][:MAX_MESSAGE]


def short_message(error: BaseException) -> str:
    """The exception's type and the first line of its message."""
    return f"{type(error).__name__}: {first_line(error)}"
