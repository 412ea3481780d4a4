"""The attention of packed rows with its gradient, as a function that a transformers decoder calls.

A completion attends to its prompt and to itself. That is two attentions whose outputs are joined by their log-sum-exps;
no mask is made, and the cost grows linearly with the completions. The backward pass of each part takes the joined output
and log-sum-exp, which makes its gradients the part's exact share.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from vlrft.policy.attention.calls import Calls
from vlrft.policy.attention.choice import make_calls
from vlrft.policy.attention.compact import CompactCalls, CompactRows
from vlrft.policy.attention.rows import PackedRows


class PackedAttention:
    """The attention of certain packed rows. What a kernel needs to know of them is made once for all layers."""

    def __init__(self, rows: PackedRows, compact: CompactRows | None = None) -> None:
        """`compact`: how the decoder runs the rows, if not as they are."""
        self.rows = rows
        self.compact = compact
        self._calls: dict[tuple[torch.device, torch.dtype, int], Calls] = {}

    def __call__(
        self,
        query: Float[Tensor, "R H L D"],
        key: Float[Tensor, "R W L D"],
        value: Float[Tensor, "R W L D"],
        scale: float,
    ) -> Float[Tensor, "R L H D"]:
        """The output; at padding it is finite and has no meaning. Differentiable once. Compact rows: R is 1 and L their tokens."""
        tokens = (tensor.transpose(1, 2).flatten(0, 1) for tensor in (query, key, value))
        output: Tensor = _Split.apply(*tokens, self._made_for(query), scale)  # type: ignore[no-untyped-call]
        return output.view(*query.transpose(1, 2).shape)

    def _made_for(self, query: Float[Tensor, "R H L D"]) -> Calls:
        kind = query.device, query.dtype, query.shape[-1]
        if kind not in self._calls:
            calls = make_calls(query, self.rows)
            if self.compact is not None:
                calls = CompactCalls(calls=calls, compact=self.compact)
            self._calls[kind] = calls
        return self._calls[kind]


class _Split(torch.autograd.Function):
    """`Calls` with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, calls: Calls, scale: float
    ) -> Float[Tensor, "T H D"]:
        output, lse = calls.forward(query, key, value, scale)
        ctx.save_for_backward(query, key, value, output, lse)
        ctx.calls, ctx.scale = calls, scale
        return output

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor | None, ...]:
        gradients = ctx.calls.backward(grad, *ctx.saved_tensors, ctx.scale)
        return (*gradients, None, None)
