"""The device and dtype of a policy where the config says `auto`."""

from __future__ import annotations

import torch

from vlrft.schema.errors import ConfigError


def pick_device(name: str) -> str:
    """The named device; `auto` is the GPU if there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return name


def find_device(name: str) -> str:
    """As `pick_device`, to be used here. Raises ConfigError for a GPU where there is none."""
    device = pick_device(name)
    if device.startswith("cuda") and not torch.cuda.is_available():
        reason = "finds no GPU" if torch.version.cuda else "was built without CUDA"
        raise ConfigError([f"device: {name}, but PyTorch {reason}; use auto or cpu"])
    return device


def pick_dtype(name: str, device: str) -> torch.dtype:
    """The named dtype; `auto` is bfloat16 on a GPU that supports it, else float32."""
    if name == "auto":
        half = device.startswith("cuda") and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if half else torch.float32
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
    return dtypes[name]
