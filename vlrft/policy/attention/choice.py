"""Which attention kernel is used where: one choice for training, prefill and decoding."""

from __future__ import annotations

from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.policy.attention import cpu_flash, cuda_efficient, cuda_flash
from vlrft.policy.attention.calls import Calls
from vlrft.policy.attention.kernel import Kernel
from vlrft.policy.attention.padded import PaddedCalls
from vlrft.policy.attention.plain import Plain
from vlrft.policy.attention.rows import PackedRows
from vlrft.policy.attention.varlen import VarlenCalls

# torch's operators behind the kernels. Their names begin with an underscore: they are private, and torch's supported
# range in pyproject.toml is the one whose operators these are. An operator that is missing is not used.
CPU_FLASH = "_scaled_dot_product_flash_attention_for_cpu"
CUDA_FLASH = "_flash_attention_forward"
CUDA_EFFICIENT = "_scaled_dot_product_efficient_attention"


def choose_kernel(query: Float[Tensor, "*S D"]) -> Kernel:
    """The kernel for queries of this device, dtype and width of a head."""
    return _choose(query.device, query.dtype, query.shape[-1])


def make_calls(query: Float[Tensor, "*S D"], rows: PackedRows) -> Calls:
    """The calls over packed rows of the kernel for such queries."""
    kernel = choose_kernel(query)
    if isinstance(kernel, cuda_flash.CudaFlash):
        return VarlenCalls(rows, query.device)
    return PaddedCalls(kernel, rows, query.device)


@cache
def _choose(device: torch.device, dtype: torch.dtype, width: int) -> Kernel:
    if device.type == "cpu" and dtype in cpu_flash.DTYPES and has_operator(CPU_FLASH):
        return cpu_flash.CpuFlash()
    if device.type == "cuda":
        if has_operator(CUDA_FLASH) and cuda_flash.suits(device, dtype, width):
            return cuda_flash.CudaFlash()
        if has_operator(CUDA_EFFICIENT) and cuda_efficient.suits(dtype, width):
            return cuda_efficient.CudaEfficient()
    return Plain()


def has_operator(name: str) -> bool:
    """Whether this torch has the operator."""
    return hasattr(torch.ops.aten, name)
