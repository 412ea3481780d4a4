"""The processes that train together: sums and lists over all of them, so that every rank decides alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from vlrft.schema.errors import RanksError
from vlrft.tracing.phases import phase

T = TypeVar("T")
WAIT = "wait"  # the phase in which a rank waits for the others


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """This process among all. With one process nothing is communicated."""

    rank: int = 0
    size: int = 1

    @classmethod
    def current(cls) -> Ranks:
        """Those of torch.distributed's default group, when there is one."""
        if not dist.is_initialized():
            return cls()
        return cls(rank=dist.get_rank(), size=dist.get_world_size())

    @property
    def first(self) -> bool:
        """Whether this rank is the one that writes."""
        return self.rank == 0

    def sums(self, *values: float) -> list[float]:
        """Each value summed over the ranks, in float64."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        with phase(WAIT):
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
        with phase(WAIT):
            dist.all_gather_object(parts, list(items))
        return parts

    def run_on_first(self, act: Callable[[], T]) -> T:
        """What `act` gives on rank 0, on every rank. What it raises there every rank raises, and none waits for ever."""
        if self.size == 1:
            return act()
        found: list[T | Exception | None] = [None]
        if self.first:
            try:
                found = [act()]
            except Exception as e:
                found = [e]
        with phase(WAIT):
            dist.broadcast_object_list(found)
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]  # type: ignore[return-value]

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Gradients summed over the ranks; one that no rank has stays None."""
        if self.size == 1:
            return
        trained = list(parameters)
        there = torch.tensor([p.grad is not None for p in trained], dtype=torch.int32)
        with phase(WAIT):
            dist.all_reduce(there)
            for parameter in (p for p, n in zip(trained, there, strict=True) if n):
                gradient: Tensor = (
                    torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                )
                dist.all_reduce(gradient)
                parameter.grad = gradient


ALONE = Ranks()


def rank_from_environment() -> int:
    """The rank that this process was started as; 0 where nothing started several."""
    return int(os.environ.get("RANK", "0"))


def join_ranks(device: str, wait: float) -> Ranks:
    """The ranks that torchrun, a DeepSpeed hostfile or `vlrft launch` started, as their environment says; this process
    alone where nothing started it. `device` is cpu or cuda; `wait`: seconds after which a rank that the others wait
    for is given up.

    Tensors of the CPU go through gloo, those of GPUs through NCCL, a GPU a rank. Raises RanksError for a machine with
    fewer GPUs than ranks.
    """
    if dist.is_initialized() or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Ranks.current()
    backend = "gloo"
    if device == "cuda":
        local = int(os.environ.get("LOCAL_RANK", rank_from_environment()))
        if local >= torch.cuda.device_count():
            raise RanksError(
                f"rank {local} of this machine has no GPU: there are {torch.cuda.device_count()}; start fewer ranks"
            )
        torch.cuda.set_device(local)
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, timeout=timedelta(seconds=wait))
    return Ranks.current()
