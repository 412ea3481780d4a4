"""Text for a terminal: control sequences of data are shown, not obeyed, and secrets are left out."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from vlrft.schema.secrets import redact

_CONTROLS = re.compile(  # C0 without tab and newline, DEL and C1, bidirectional controls, surrogates, separators
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_CURSOR_UP = re.compile(
    "\r?(?:\n|\x1b\\[A)*"
)  # how progress bars of other packages move between their lines


def show_controls(text: str) -> str:
    """The text with each control character as an escape: `\\x1b`, `\\u202e`. Tabs and newlines stay."""
    return _CONTROLS.sub(lambda match: _escape(match[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


class SafeStream:
    """A text stream that passes on what is written to it without secrets and with its control characters escaped.

    A carriage return that opens a write, and a write that only moves the cursor, are passed on: progress bars need them.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Writes the text; returns its length."""
        if _CURSOR_UP.fullmatch(text):
            self.stream.write(text)
            return len(text)
        start = "\r" if text.startswith("\r") else ""
        safe = start + show_controls(redact(text[len(start) :]))
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(safe.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def guard_streams() -> None:
    """Makes stdout and stderr safe, for the rest of the process or until they are replaced."""
    sys.stdout = _guard(sys.stdout)
    sys.stderr = _guard(sys.stderr)


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Makes stdout and stderr safe within a `with` block."""
    streams = sys.stdout, sys.stderr
    guard_streams()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def raw_stream(stream: TextIO) -> TextIO:
    """The stream itself, for text that must move the cursor and contains nothing of others'."""
    while isinstance(stream, SafeStream):
        stream = stream.stream
    return stream


def _guard(stream: TextIO) -> TextIO:
    """A safe stream; a process started without a terminal may have none."""
    safe = stream is None or isinstance(stream, SafeStream)
    return stream if safe else cast(TextIO, SafeStream(stream))
