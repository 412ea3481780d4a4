"""The deepspeed package: imported quietly, for the right device."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

from vlrft.schema.errors import ConfigError


def import_deepspeed(device: str) -> Any:
    """The package, set to the device and to log errors only. Raises ConfigError, naming the extra, where it or a package
    that it imports is missing."""
    if device == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("LOCAL_RANK", "0")
    try:
        import deepspeed
        import deepspeed.ops
    except ImportError as e:
        missing = "is not installed" if e.name == "deepspeed" else f"cannot be imported ({e})"
        raise ConfigError(
            [
                f"engine: deepspeed {missing}; pip install 'vlrft[deepspeed]', or engine=fsdp, which shards with PyTorch alone"
            ]
        ) from None
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    # Warnings about DeepSpeed's calls.
    warnings.filterwarnings("ignore", r"`torch\.distributed\.", FutureWarning)
    # Compiling it takes a minute, and only inference uses it.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed
