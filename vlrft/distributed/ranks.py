"""The processes that train together, and the collectives with which every rank comes to the same decision."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]

from vlrft.distributed.phases import phase
from vlrft.schema.errors import RanksError
from vlrft.schema.short_message import short_message

T = TypeVar("T")
JOIN_SECONDS = 600.0  # for all ranks to connect, which they do before they load data or a model
WAIT = "wait"  # the phase of a collective: this rank waits for the others


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """This process's place in the group. With one process nothing is communicated."""

    rank: int = 0
    size: int = 1

    @classmethod
    def current(cls) -> Ranks:
        """The place in torch.distributed's default group; rank 0 of 1 when there is no group."""
        if not dist.is_initialized():
            return cls()
        return cls(rank=dist.get_rank(), size=dist.get_world_size())

    @property
    def first(self) -> bool:
        """Whether this is rank 0, the one that writes files."""
        return self.rank == 0

    def sum_each(self, *values: float) -> list[float]:
        """Each value summed over the ranks, in float64."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        with phase(WAIT):
            dist.all_reduce(total)
        return [float(v) for v in total]

    def sum_count(self, count: int) -> int:
        """The count summed over the ranks."""
        return int(self.sum_each(count)[0])

    def gather(self, items: Sequence[T]) -> list[list[T]]:
        """The items of every rank, in order of rank. They are pickled: the ranks are one job and trust each other."""
        if self.size == 1:
            return [list(items)]
        parts: list[list[T]] = [[] for _ in range(self.size)]
        with phase(WAIT):
            dist.all_gather_object(parts, list(items))
        return parts

    def run_on_first(self, act: Callable[[], T]) -> T:
        """Calls `act` on rank 0 alone; every rank returns its result, or raises its exception. For one that cannot be pickled the
        other ranks raise RanksError with its message."""
        if self.size == 1:
            return act()
        result: list[T | Exception | None] = [None]
        error: Exception | None = None
        if self.first:
            try:
                result = [act()]
            except Exception as e:
                error = e
                result = [_sendable(e)]
        with phase(WAIT):
            dist.broadcast_object_list(result)
        if isinstance(result[0], Exception):
            raise error or result[0]
        return result[0]  # type: ignore[return-value]


ALONE = Ranks()


def _sendable(error: Exception) -> Exception:
    """The exception, or one with its message where it cannot be sent to other processes."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RanksError(f"rank 0: {short_message(error)}")
    return error


def rank_from_environment() -> int:
    """The rank that the launcher gave this process; 0 where none did."""
    return int(os.environ.get("RANK", "0"))


def ranks_on_this_machine(ranks: Ranks) -> int:
    """How many of the ranks run on this machine: as the launcher says, else all of them."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", ranks.size)) if ranks.size > 1 else 1


def join_ranks(device: str, timeout: float) -> Ranks:
    """Joins the ranks that torchrun, a DeepSpeed hostfile or `vlrft launch` started, as the environment describes them.

    A process that none of them started is the only rank. `device` is cpu or cuda; `timeout`: seconds that a collective
    waits for a rank. CPU tensors go through gloo, CUDA tensors through NCCL, one GPU per rank. Raises RanksError for a
    machine with fewer GPUs than ranks, and for ranks that are joined already but exchange no CPU tensors.
    """
    if dist.is_initialized():
        return _of_a_foreign_group()
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return ALONE
    backend = "gloo"
    if device == "cuda":
        local = int(os.environ.get("LOCAL_RANK", rank_from_environment()))
        if local >= torch.cuda.device_count():
            raise RanksError(
                f"rank {local} of this machine has no GPU: it has {torch.cuda.device_count()}; start fewer ranks"
            )
        torch.cuda.set_device(local)
        backend = "cpu:gloo,cuda:nccl"
    try:
        # A rank that fails before it connects must not be waited for as long as a slow step.
        limit = timedelta(seconds=min(JOIN_SECONDS, timeout))
        store, rank, size = next(iter(rendezvous("env://", timeout=limit)))
        dist.init_process_group(
            backend,
            store=PrefixStore("default_pg", store),
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=timeout),
        )
    except (dist.DistError, ValueError) as e:
        place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise RanksError(
            f"rank {rank_from_environment()}: the other ranks cannot be met at {place} ({short_message(e)}); they must be "
            "started together, with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE"
        ) from e
    return Ranks.current()


def _of_a_foreign_group() -> Ranks:
    """The place in a group that this process joined before. Raises RanksError for one without a backend for CPU tensors, in
    which every rank's counts and decisions are exchanged."""
    ranks, backends = Ranks.current(), dist.get_backend_config()
    if ranks.size > 1 and "cpu:" not in backends:
        raise RanksError(
            f"this process joined its ranks with the backend {backends}, which exchanges no CPU tensors; join them with "
            "torch.distributed.init_process_group('cpu:gloo,cuda:nccl'), or leave it to vlrft"
        )
    return ranks
