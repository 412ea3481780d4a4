"""Ranks that are threads of one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any, TypeVar

from vlrft.distributed.ranks import Ranks

T = TypeVar("T")


class Meeting:
    """Where ranks that are threads put what they gather."""

    def __init__(self, size: int) -> None:
        self.given: list[Any] = [None] * size
        self.met = Barrier(size, timeout=10)  # one rank that asks alone breaks the test


@dataclass(frozen=True, kw_only=True)
class ThreadRanks(Ranks):
    meeting: Meeting

    def gather(self, items: Sequence[T]) -> list[list[T]]:
        self.meeting.given[self.rank] = list(items)
        self.meeting.met.wait()
        found = list(self.meeting.given)
        self.meeting.met.wait()
        return found

    def sums(self, *values: float) -> list[float]:
        told = [own for part in self.gather([values]) for own in part]
        return [sum(column) for column in zip(*told, strict=True)]


def on_ranks(size: int, work: Callable[[Ranks], T]) -> list[T]:
    """What `work` gives on each of so many ranks."""
    if size == 1:
        return [work(Ranks())]
    meeting = Meeting(size)
    ranks = [ThreadRanks(rank=rank, size=size, meeting=meeting) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, ranks))
