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

# torch's operators that call the kernels. Their names begin with an underscore: they are private, and torch's supported
# range in pyproject.toml is the one whose operators these are. An operator that is missing, or that another release gave
# other arguments, is not used.
CPU_FLASH = "_scaled_dot_product_flash_attention_for_cpu"
CUDA_FLASH = "_flash_attention_forward"
CUDA_EFFICIENT = "_scaled_dot_product_efficient_attention"
# Of each with its backward pass: the arguments that are given by place, and those given by name.
ARGUMENTS = {
    CPU_FLASH: {
        CPU_FLASH: ("query key value dropout_p is_causal", "attn_mask scale"),
        f"{CPU_FLASH}_backward": (
            "grad_out query key value out logsumexp dropout_p is_causal",
            "scale",
        ),
    },
    CUDA_FLASH: {
        CUDA_FLASH: (
            "query key value cum_seq_q cum_seq_k max_q max_k dropout_p is_causal return_debug_mask",
            "scale seqused_k",
        ),
        "_flash_attention_backward": (
            "grad_out query key value out logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p is_causal rng_state unused",
            "scale",
        ),
    },
    CUDA_EFFICIENT: {
        CUDA_EFFICIENT: (
            "query key value attn_bias compute_log_sumexp dropout_p is_causal",
            "scale",
        ),
        f"{CUDA_EFFICIENT}_backward": (
            "grad_out_ query key value attn_bias out logsumexp philox_seed philox_offset dropout_p grad_input_mask is_causal",
            "scale",
        ),
    },
}


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


@cache
def has_operator(name: str) -> bool:
    """Whether this torch has the operator and its backward pass, with the arguments that they are called with here."""
    return all(_takes(called, *arguments) for called, arguments in ARGUMENTS[name].items())


def _takes(name: str, by_place: str, by_name: str) -> bool:
    operator = getattr(torch.ops.aten, name, None)
    if operator is None:
        return False
    given, rest = by_place.split(), set(by_name.split())
    arguments = operator.default._schema.arguments
    placed = [a.name for a in arguments if not a.kwarg_only]
    needed = {a.name for a in arguments if not a.has_default_value()}
    return (
        placed[: len(given)] == given
        and rest <= {a.name for a in arguments}
        and needed <= {*given, *rest}
    )
