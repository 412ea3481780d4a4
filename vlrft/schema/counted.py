"""A number with its noun, for messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "row"), counted(1500, "row")
    ('1 row', '1,500 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
