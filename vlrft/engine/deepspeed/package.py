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
    wanted = {"LOCAL_RANK": "0"} | ({"DS_ACCELERATOR": "cpu"} if device == "cpu" else {})
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        import deepspeed
        import deepspeed.ops
    except ImportError as e:
        for name in added:  # to other libraries they would mean a run of several ranks
            del os.environ[name]
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
