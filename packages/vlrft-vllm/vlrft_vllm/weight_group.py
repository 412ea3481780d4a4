"""The worker's end of a broadcast: a process group of the trainer's first rank, which is rank 0 and sends, and of the server's workers.

The group is made from a TCPStore of the trainer's, next to vLLM's own groups: no default group is touched. Imports no vLLM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

ASKED = "vlrft/asked"  # in the store, for each worker: the number of tensors that it has asked for
LEFT = "vlrft/left"  # in the store: the number of workers that have left
Weights = Iterator[tuple[str, torch.Tensor]]


class WeightGroup:
    """A worker's place in the group."""

    def __init__(
        self,
        address: str,
        port: int,
        size: int,
        rank: int,
        backend: str,
        join_seconds: float,
        seconds: float,
    ) -> None:
        """`address` and `port`: of the store; `backend`: gloo or nccl; `join_seconds`: for the ranks to meet, as long as the trainer
        waits for it; `seconds`: for each wait later.

        Raises RuntimeError where the ranks do not meet.
        """
        join_limit, limit = timedelta(seconds=join_seconds), timedelta(seconds=seconds)
        store = TCPStore(address, port, None, False, join_limit)
        self.device = torch.device("cpu")
        if backend == "nccl":
            self.device = torch.device("cuda", torch.cuda.current_device())
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = limit
            self._group: Any = dist.ProcessGroupNCCL(store, rank, size, options)
        else:
            self._group = dist.ProcessGroupGloo(store, rank, size, join_limit)
            self._group.set_timeout(limit)
        self._store = store  # NCCL meets through it at its first broadcast
        self._asked = f"{ASKED}/{rank}"

    def receive(
        self, names: Sequence[str], dtypes: Sequence[str], shapes: Sequence[Sequence[int]]
    ) -> Weights:
        """The tensors by name, in the order in which they are sent, each received when it is asked for."""
        for name, dtype, shape in zip(names, dtypes, shapes, strict=True):
            tensor = torch.empty(tuple(shape), dtype=getattr(torch, dtype), device=self.device)
            self._store.add(self._asked, 1)  # the sender does not begin before
            self._group.broadcast(tensor, 0).wait()
            yield name, tensor

    def close(self) -> None:
        """Leaves the group: the sender's broadcast, if there is one, fails at once."""
        with suppress(RuntimeError):  # the sender has gone, and its store
            self._store.add(LEFT, 1)
        self._group.abort()
        del self._group, self._store
