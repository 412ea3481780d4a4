"""FlashAttention on CUDA for half precision, the kernel below `scaled_dot_product_attention`, with its log-sum-exp.

`python -m benchmarks.gpu correctness` compares it with the definition of attention on a GPU.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.policy.attention.kernel import Gradients

DTYPES = (torch.bfloat16, torch.float16)
MAX_WIDTH = 256  # of a head
WIDTH_STEP = 8
CAPABILITY = (8, 0)  # Ampere, the oldest that the kernel runs on


class CudaFlash:
    """See `Kernel`. Key heads are not repeated. The kernel has the heads after the positions, so that tensors whose
    memory is [B Q H D] are not copied."""

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
        output, lse, *_ = torch.ops.aten._flash_attention_forward(
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            None,
            None,
            query.shape[2],
            key.shape[2],
            0.0,
            causal,
            return_debug_mask=False,
            scale=scale,
        )
        return output.transpose(1, 2), lse

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
        parts = (part.transpose(1, 2) for part in (grad, query, key, value, output))
        gradients = torch.ops.aten._flash_attention_backward(
            *parts,
            lse.contiguous(),
            None,
            None,
            query.shape[2],
            key.shape[2],
            0.0,
            causal,
            *no_dropout(query.device),
            scale=scale,
        )
        grad_query, grad_key, grad_value = (part.transpose(1, 2) for part in gradients)
        return grad_query, grad_key, grad_value


def no_dropout(device: torch.device) -> tuple[Tensor, Tensor]:
    """The backward kernel's arguments for the random state of dropout, which is unused."""
    return torch.zeros(2, dtype=torch.uint64, device=device), torch.empty(0, device=device)


def suits(device: torch.device, dtype: torch.dtype, width: int) -> bool:
    """Whether this device's kernel takes heads of this dtype and width."""
    return (
        dtype in DTYPES
        and width <= MAX_WIDTH
        and width % WIDTH_STEP == 0
        and torch.backends.cuda.is_flash_attention_available()
        and torch.cuda.get_device_capability(device) >= CAPABILITY
    )
