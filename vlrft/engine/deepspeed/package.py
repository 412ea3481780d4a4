"""DeepSpeed itself: imported, quiet, told where it computes and with whom."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

import torch.distributed as dist

from vlrft.schema.errors import ConfigError


def meet(device: str) -> None:
    """One process forms a group of its own, for DeepSpeed wants one."""
    from torch.distributed import HashStore  # type: ignore[attr-defined]

    if not dist.is_initialized():
        backend = "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)


def package(device: str) -> Any:
    """The package, told to keep to the device and to be quiet. Raises ConfigError naming the extra."""
    if device == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("LOCAL_RANK", "0")
    try:
        import deepspeed
        import deepspeed.ops
    except ImportError:
        raise ConfigError(
            ["engine: deepspeed is not installed; pip install 'vlrft[deepspeed]'"]
        ) from None
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", r"`torch\.distributed\.", FutureWarning)  # DeepSpeed's affair
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = (
        False  # compiled for a minute, for inference
    )
    return deepspeed
