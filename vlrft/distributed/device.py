"""The device and dtype of a policy where the config says `auto`."""

from __future__ import annotations

import torch


def pick_device(name: str) -> str:
    """The named device; `auto` is the GPU if there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return name


def pick_dtype(name: str, device: str) -> torch.dtype:
    """The named dtype; `auto` is bfloat16 on a GPU that supports it, else float32."""
    if name == "auto":
        half = device.startswith("cuda") and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if half else torch.float32
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
    return dtypes[name]
