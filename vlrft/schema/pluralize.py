"""A number with its noun, for messages."""

from __future__ import annotations


def pluralize(number: int, noun: str, plural: str | None = None) -> str:
    """`plural`: of a noun that takes more than an s.

    >>> pluralize(1, "row"), pluralize(1500, "row"), pluralize(2, "box", "boxes")
    ('1 row', '1,500 rows', '2 boxes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
