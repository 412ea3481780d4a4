"""A reward under which two answers hardly ever have the same score, so that a group of a random policy has a gradient."""

from __future__ import annotations

from zlib import crc32

from vlrft.schema import Sample


def spread(completion: str, sample: Sample) -> float:
    """A number in [0, 1) that only depends on the text."""
    return crc32(completion.encode()) / 2**32
