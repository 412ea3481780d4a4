"""torch's memory-efficient attention for CUDA, the one below `scaled_dot_product_attention` for float32, with its
log-sum-exp.

`python -m benchmarks.gpu correctness` compares it with the definition of attention on a GPU.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from vlrft.policy.attention.kernel import Gradients

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
WIDTH_BYTES = 16  # a head's width must be a multiple of so many bytes
LSE_STEP = 32  # the kernel's log-sum-exp is padded to a multiple of so many queries


class CudaEfficient:
    """See `Kernel`. Without `causal` the query heads of a key head become further queries; with it the key heads are
    repeated, as the kernel knows no groups of heads."""

    def forward(
        self,
        query: Float[Tensor, "B H Q D"],
        key: Float[Tensor, "B W K D"],
        value: Float[Tensor, "B W K D"],
        *,
        causal: bool,
        scale: float,
    ) -> tuple[Float[Tensor, "B H Q D"], Float[Tensor, "B H Q"]]:
        """See `Kernel.forward`."""
        groups = query.shape[1] // key.shape[1]
        folded = _fold(query, groups, causal)
        output, lse, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(
            folded,
            _repeat(key, groups, causal),
            _repeat(value, groups, causal),
            None,
            True,
            0.0,
            causal,
            scale=scale,
        )
        lse = lse.narrow(2, 0, folded.shape[2])  # without the kernel's padding
        return output.reshape(query.shape), lse.reshape(query.shape[:-1])

    def backward(
        self,
        grad: Float[Tensor, "B H Q D"],
        query: Float[Tensor, "B H Q D"],
        key: Float[Tensor, "B W K D"],
        value: Float[Tensor, "B W K D"],
        output: Float[Tensor, "B H Q D"],
        lse: Float[Tensor, "B H Q"],
        *,
        causal: bool,
        scale: float,
    ) -> Gradients:
        """See `Kernel.backward`."""
        groups = query.shape[1] // key.shape[1]
        folded_grad, folded, folded_output = (
            _fold(part, groups, causal) for part in (grad, query, output)
        )
        folded_lse = _fold(lse.unsqueeze(-1), groups, causal).squeeze(-1)
        padding = -folded.shape[2] % LSE_STEP
        padded_lse = functional.pad(folded_lse, (0, padding), value=torch.inf)
        random = torch.zeros((), dtype=torch.long, device=query.device)  # of dropout; unused
        gradients = torch.ops.aten._scaled_dot_product_efficient_attention_backward(
            folded_grad,
            folded,
            _repeat(key, groups, causal),
            _repeat(value, groups, causal),
            None,
            # The kernel has no stride for the queries of these two: [B Q H D] and [B H Q] in memory. Padding by 0 keeps
            # strides, and in half precision the kernel itself multiplies the output by its gradient.
            _contiguous(folded_output.transpose(1, 2)).transpose(1, 2),
            _contiguous(padded_lse),
            random,
            random,
            0.0,
            [True, True, True, False],
            causal,
            scale=scale,
        )
        grad_query, grad_key, grad_value, _ = gradients
        heads = key.shape[1]
        return (
            grad_query.reshape(query.shape),
            _sum_groups(grad_key, heads),
            _sum_groups(grad_value, heads),
        )


def suits(dtype: torch.dtype, width: int) -> bool:
    """Whether the kernel takes heads of this dtype and width."""
    return dtype in DTYPES and width * dtype.itemsize % WIDTH_BYTES == 0


def _fold(tensor: Float[Tensor, "B H Q D"], groups: int, causal: bool) -> Tensor:
    """[B W R·Q D]: the R query heads of a key head become further queries; under `causal` nothing changes."""
    if causal:
        return tensor
    batch, heads, count, width = tensor.shape
    return tensor.reshape(batch, heads // groups, groups * count, width)


def _repeat(tensor: Float[Tensor, "B W K D"], groups: int, causal: bool) -> Tensor:
    return tensor.repeat_interleave(groups, 1) if causal and groups > 1 else tensor


def _sum_groups(tensor: Float[Tensor, "B H K D"], heads: int) -> Float[Tensor, "B W K D"]:
    if tensor.shape[1] == heads:
        return tensor
    batch, _, count, width = tensor.shape
    return tensor.reshape(batch, heads, -1, count, width).sum(2)


def _contiguous(tensor: Tensor) -> Tensor:
    """As `Tensor.contiguous`, which fake tensors of a GPU do not have in a torch without CUDA."""
    if tensor.is_contiguous():
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)
