"""torch's own tiled attention for CPUs, the one below `scaled_dot_product_attention`, with its log-sum-exp."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
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
        lengths: Int[Tensor, " B"] | None = None,
    ) -> tuple[Float[Tensor, "B H Q D"], Float[Tensor, "B H Q"]]:
        """See `Kernel.forward`."""
        output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, attn_mask=_bias(query, key, lengths), scale=scale
        )
        if lengths is not None:  # without a key the kernel's log-sum-exp is 0
            lse = lse.masked_fill((lengths == 0)[:, None, None], -torch.inf)
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
        lengths: Int[Tensor, " B"] | None = None,
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
            attn_mask=_bias(query, key, lengths),
            scale=scale,
        )
        return gradients


def _bias(query: Tensor, key: Tensor, lengths: Tensor | None) -> Float[Tensor, "B 1 1 K"] | None:
    """Added to the scores: 0, or -inf for keys beyond `lengths`."""
    if lengths is None:
        return None
    beyond = torch.arange(key.shape[2], device=key.device) >= lengths[:, None]
    return query.new_zeros(beyond.shape).masked_fill_(beyond, -torch.inf)[:, None, None]
