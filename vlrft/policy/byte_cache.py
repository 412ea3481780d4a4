"""A store that holds what was used last, within so many bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class ByteCache(Generic[T]):
    """Values by key; the one that was not used for longest goes when they are larger than `limit` bytes together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._kept: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def get(self, key: str) -> T | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def put(self, key: str, value: T, size: int) -> None:
        """`size` in bytes. A value larger than all the room is not kept."""
        self.bytes += size - self._kept.pop(key, (value, 0))[1]
        self._kept[key] = value, size
        while self.bytes > self.limit:
            _, (_, dropped) = self._kept.popitem(last=False)
            self.bytes -= dropped
