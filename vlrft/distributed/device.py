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


def pick_dtype(name: str, device: str, stored: torch.dtype | None = None) -> torch.dtype:
    """The named dtype. `auto` is bfloat16 on a GPU that supports it, and on a CPU with units for it where the model's weights
    are `stored` in bfloat16; else float32."""
    if name == "auto":
        if device.startswith("cuda"):
            half = torch.cuda.is_bf16_supported(including_emulation=False)
        else:
            half = stored == torch.bfloat16 and device == "cpu" and has_bfloat16_units()
        return torch.bfloat16 if half else torch.float32
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
    return dtypes[name]


def has_bfloat16_units() -> bool:
    """Whether this CPU multiplies matrices in bfloat16 faster than in float32: AVX512-BF16 or AMX."""
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16"))
