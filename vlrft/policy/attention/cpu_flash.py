"""torch's own tiled attention for CPUs, the one below `scaled_dot_product_attention`, with its log-sum-exp."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.policy.attention.kernel import Gradients

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class CpuFlash:
    """See `Kernel`. Key heads are not repeated, and every dtype accumulates in float32 at least."""

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
        output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, scale=scale
        )
        return output, lse

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
        if query.numel() == 0 or key.numel() == 0:
            return torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
        gradients: Gradients = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad,
            query,
            key,
            value,
            output,
            lse,
            0.0,
            causal,
            scale=scale,
        )
        return gradients
