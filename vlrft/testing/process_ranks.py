"""Ranks as processes on one machine, with gloo on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from vlrft.distributed.ranks import Ranks

TIMEOUT = timedelta(minutes=2)  # of a collective


def run_ranks(work: Callable[[Ranks, Path], Any], folder: Path, size: int = 2) -> list[Any]:
    """Run `work` in `size` processes that share the empty `folder`; returns the result of each rank."""
    spawn(_rank, args=(work, folder, size), nprocs=size)  # type: ignore[no-untyped-call]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(size)]


def _rank(rank: int, work: Callable[[Ranks, Path], Any], folder: Path, size: int) -> None:
    torch.set_num_threads(1)
    environment = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    os.environ.update({name: str(value) for name, value in environment.items()})
    rendezvous = f"file://{folder / 'rendezvous'}"
    dist.init_process_group(
        "gloo", init_method=rendezvous, rank=rank, world_size=size, timeout=TIMEOUT
    )
    torch.save(work(Ranks.current(), folder), folder / f"{rank}.pt")
    dist.destroy_process_group()
