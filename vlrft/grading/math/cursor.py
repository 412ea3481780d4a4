"""A place in a list of tokens, for the parsers of expressions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vlrft.grading.math.numerals import UnreadableError

MAX_DEPTH = 40


class Cursor:
    """The tokens, the place of the next one, and how deep the parser is in brackets, arguments and exponents."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = list(tokens)
        self.place = 0
        self._depth = 0

    @property
    def done(self) -> bool:
        return self.place == len(self.tokens)

    @property
    def next(self) -> str:
        """The next token; "" at the end."""
        return "" if self.done else self.tokens[self.place]

    def take(self, expected: str | None = None) -> str:
        """Passes the next token and returns it. Raises UnreadableError at the end, or when it is not `expected`."""
        if self.done or (expected is not None and self.next != expected):
            raise UnreadableError(expected)
        self.place += 1
        return self.tokens[self.place - 1]

    def take_all(self, *expected: str) -> bool:
        """Passes the next tokens when they are exactly these, and returns whether they are."""
        end = self.place + len(expected)
        if tuple(self.tokens[self.place : end]) != expected:
            return False
        self.place = end
        return True

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """One level down. Raises UnreadableError below MAX_DEPTH, so that recursion ends before Python's own limit."""
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                raise UnreadableError("too deep")
            yield
        finally:
            self._depth -= 1
