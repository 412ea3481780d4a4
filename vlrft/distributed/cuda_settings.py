"""A process that uses a GPU: TF32 in products of float32, and copies from host memory. On a CPU nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def float32_products(tf32: bool | None, dtype: torch.dtype, device: str) -> Iterator[None]:
    """A context in which products of float32 matrices on a GPU use TF32 (10 bits of mantissa, on tensor cores) or do not.

    `tf32` None: with a policy of half precision, and not with one of float32. Beside bfloat16 weights the float32 products
    are those of adapters, and of attention scores whose factors were bfloat16 and so fit into TF32 exactly. A float32 policy
    is float32 throughout, convolutions included, for which torch's own default is TF32.

    Both settings belong to the process, in all of its threads, and are restored at the end. A process that has used
    `torch.backends.*.fp32_precision`, whose older forms can then not be read, is left as it is.
    """
    if not device.startswith("cuda"):
        yield
        return
    chosen = dtype in (torch.bfloat16, torch.float16) if tf32 is None else tf32
    try:
        before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    except RuntimeError:
        yield
        return
    _set_precision("high" if chosen else "highest", chosen)
    try:
        yield
    finally:
        _set_precision(*before)


def _set_precision(matrices: str, convolutions: bool) -> None:
    torch.set_float32_matmul_precision(matrices)
    torch.backends.cudnn.allow_tf32 = convolutions


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on a device. From host memory to a GPU it goes through pinned memory, so that the host does not wait for the
    copy, nor for the work before it."""
    target = torch.device(device)
    if target.type != "cuda" or tensor.device.type != "cpu" or not torch.cuda.is_available():
        return tensor.to(target)
    return tensor.pin_memory().to(target, non_blocking=True)
