"""The process group of a rank that is alone: sharding engines communicate through a group in any case."""

from __future__ import annotations

import torch.distributed as dist


def ensure_process_group(device: str) -> None:
    """Creates a process group of one where there is none. `device` is the type, cpu or cuda."""
    from torch.distributed import HashStore  # type: ignore[attr-defined]

    if not dist.is_initialized():
        backend = "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
