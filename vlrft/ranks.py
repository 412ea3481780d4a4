"""The processes that train together: sums and lists over all of them, so that every rank decides alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """This process among all. With one process nothing is communicated."""

    rank: int = 0
    size: int = 1

    @classmethod
    def joined(cls) -> Ranks:
        """Those of torch.distributed's default group, when there is one."""
        if not dist.is_initialized():
            return cls()
        return cls(rank=dist.get_rank(), size=dist.get_world_size())

    def sums(self, *values: float) -> list[float]:
        """Each value summed over the ranks, in float64."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return [float(v) for v in total]

    def total(self, count: int) -> int:
        """A count summed over the ranks."""
        return int(self.sums(count)[0])

    def gather(self, items: Sequence[T]) -> list[list[T]]:
        """The items of every rank, in order of rank. They must be picklable; the ranks are one job and trust each other."""
        if self.size == 1:
            return [list(items)]
        parts: list[list[T]] = [[] for _ in range(self.size)]
        dist.all_gather_object(parts, list(items))
        return parts

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Gradients summed over the ranks; one that no rank has stays None."""
        if self.size == 1:
            return
        trained = list(parameters)
        there = torch.tensor([p.grad is not None for p in trained], dtype=torch.int32)
        dist.all_reduce(there)
        for parameter in (p for p, n in zip(trained, there, strict=True) if n):
            gradient: Tensor = (
                torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            )
            dist.all_reduce(gradient)
            parameter.grad = gradient


ALONE = Ranks()
