"""A least-recently-used cache with a limit in bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class ByteCache(Generic[T]):
    """Values by key, at most `limit` bytes together; the least recently used value is dropped first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._entries: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def get(self, key: str) -> T | None:
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: str, value: T, size: int) -> None:
        """Keeps a value of `size` bytes, unless it is larger than the limit."""
        self.bytes += size - self._entries.pop(key, (value, 0))[1]
        self._entries[key] = value, size
        while self.bytes > self.limit:
            _, (_, dropped) = self._entries.popitem(last=False)
            self.bytes -= dropped
