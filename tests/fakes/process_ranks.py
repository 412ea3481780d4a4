"""Several processes of one test that train together, on the CPU."""

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

PATIENCE = timedelta(minutes=2)  # with a rank that others wait for


def side_by_side(work: Callable[[Ranks, Path], Any], folder: Path, size: int = 2) -> list[Any]:
    """What `work` gives in each of so many processes, which share an empty folder."""
    spawn(_rank, args=(work, folder, size), nprocs=size)  # type: ignore[no-untyped-call]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(size)]


def _rank(rank: int, work: Callable[[Ranks, Path], Any], folder: Path, size: int) -> None:
    torch.set_num_threads(1)
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    os.environ.update({name: str(value) for name, value in places.items()})
    rendezvous = f"file://{folder / 'rendezvous'}"
    dist.init_process_group(
        "gloo", init_method=rendezvous, rank=rank, world_size=size, timeout=PATIENCE
    )
    torch.save(work(Ranks.current(), folder), folder / f"{rank}.pt")
    dist.destroy_process_group()
