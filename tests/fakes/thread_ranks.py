"""Ranks that are threads of one process: collectives without a process group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any, TypeVar

from vlrft.distributed.ranks import Ranks

T = TypeVar("T")


class Rendezvous:
    """Shared memory of the threads: one slot per rank."""

    def __init__(self, size: int) -> None:
        self.slots: list[Any] = [None] * size
        self.barrier = Barrier(
            size, timeout=10
        )  # a collective that one rank calls alone breaks the test


@dataclass(frozen=True, kw_only=True)
class ThreadRanks(Ranks):
    rendezvous: Rendezvous

    def gather(self, items: Sequence[T]) -> list[list[T]]:
        self.rendezvous.slots[self.rank] = list(items)
        self.rendezvous.barrier.wait()
        parts = list(self.rendezvous.slots)
        self.rendezvous.barrier.wait()
        return parts

    def sum_each(self, *values: float) -> list[float]:
        rows = [row for part in self.gather([values]) for row in part]
        return [sum(column) for column in zip(*rows, strict=True)]


def run_thread_ranks(size: int, work: Callable[[Ranks], T]) -> list[T]:
    """The results of `work` on each of `size` ranks."""
    if size == 1:
        return [work(Ranks())]
    rendezvous = Rendezvous(size)
    ranks = [ThreadRanks(rank=rank, size=size, rendezvous=rendezvous) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, ranks))
