"""Attention while tokens are sampled: few queries for each sequence of keys, many layers with the same lengths.

`prepare_keys` does once, for all layers of a token, whatever depends on the lengths alone; the part it returns is then one
fused call a layer. Positions come before heads here, as a KV cache has them.

Axes: B sequences, Q queries and K keys of a sequence, H query heads, W key heads, R query heads of each key head, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.policy.attention.choice import choose_kernel
from vlrft.policy.attention.cpu_flash import CpuFlash
from vlrft.policy.attention.cuda_flash import CudaFlash
from vlrft.policy.attention.kernel import Kernel
from vlrft.policy.attention.plain import Plain

Attended = tuple[Float[Tensor, "B Q W R D"], Float[Tensor, "B Q W R"]]


@runtime_checkable
class Part(Protocol):
    """One part of an attention, for keys of certain lengths."""

    def __call__(
        self,
        query: Float[Tensor, "B Q H D"],
        key: Float[Tensor, "B K W D"],
        value: Float[Tensor, "B K W D"],
        scale: float,
    ) -> Attended:
        """Output, in the dtype of the query, and log-sum-exp of the scores, in float32 at least."""
        ...


def prepare_keys(
    query: Float[Tensor, "*S D"], lengths: Int[Tensor, " B"] | None, *, keys: int, queries: int
) -> Part:
    """The part for `queries` queries over the first `lengths` (None: all) of `keys` keys, each length at least 1. `query`:
    any tensor of the queries' device, dtype and width."""
    kernel = choose_kernel(query)
    if isinstance(kernel, CpuFlash):
        return _CpuFlashPart(None if lengths is None else _bias(query, lengths, keys))
    if isinstance(kernel, CudaFlash) and lengths is not None:
        ends = torch.arange(len(lengths) + 1, dtype=torch.int32, device=query.device)
        return _VarlenPart(
            query_ends=ends * queries, key_ends=ends * keys, used=lengths.to(torch.int32)
        )
    return _KernelPart(kernel) if lengths is None else _PlainPart(lengths)


def _bias(query: Tensor, lengths: Tensor, keys: int) -> Float[Tensor, "B 1 1 K"]:
    """Added to the scores: 0, or -inf for keys beyond `lengths`."""
    beyond = torch.arange(keys, device=lengths.device) >= lengths[:, None]
    bias = torch.zeros(beyond.shape, dtype=query.dtype, device=query.device)
    return bias.masked_fill_(beyond, -torch.inf)[:, None, None]


@dataclass(frozen=True)
class _CpuFlashPart:
    """The query heads of a key head become further queries, which the kernel multiplies at once."""

    bias: Float[Tensor, "B 1 1 K"] | None

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Attended:
        count, heads = query.shape[1], key.shape[2]
        folded = torch.unflatten(query, 2, (heads, -1)).transpose(1, 2).flatten(2, 3)
        output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            folded,
            key.transpose(1, 2),
            value.transpose(1, 2),
            0.0,
            False,
            attn_mask=self.bias,
            scale=scale,
        )
        unfold = (count, -1)
        return (
            torch.unflatten(output, 2, unfold).transpose(1, 2),
            torch.unflatten(lse, 2, unfold).transpose(1, 2),
        )


@dataclass(frozen=True, kw_only=True)
class _VarlenPart:
    """FlashAttention's varlen form: each sequence has room for K keys and uses some."""

    query_ends: Int[Tensor, " B1"]
    key_ends: Int[Tensor, " B1"]
    used: Int[Tensor, " B"]

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Attended:
        (batch, count), heads = query.shape[:2], key.shape[2]
        output, lse, *_ = torch.ops.aten._flash_attention_forward(
            query.flatten(0, 1),
            key.flatten(0, 1),
            value.flatten(0, 1),
            self.query_ends,
            self.key_ends,
            count,
            key.shape[1],
            0.0,
            False,
            return_debug_mask=False,
            scale=scale,
            seqused_k=self.used,
        )
        return (
            output.view(batch, count, heads, -1, output.shape[-1]),
            lse.view(heads, -1, batch, count).permute(2, 3, 0, 1),
        )


@dataclass(frozen=True)
class _KernelPart:
    """All keys, by any kernel's own interface."""

    kernel: Kernel

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Attended:
        parts = (tensor.transpose(1, 2) for tensor in (query, key, value))
        output, lse = self.kernel.forward(*parts, causal=False, scale=scale)
        return _group(output, lse, key.shape[2])


@dataclass(frozen=True)
class _PlainPart:
    """The first keys, in plain products."""

    lengths: Int[Tensor, " B"]

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Attended:
        parts = (tensor.transpose(1, 2) for tensor in (query, key, value))
        output, lse = Plain().forward(*parts, causal=False, scale=scale, lengths=self.lengths)
        return _group(output, lse, key.shape[2])


def _group(output: Float[Tensor, "B H Q D"], lse: Float[Tensor, "B H Q"], heads: int) -> Attended:
    groups = (heads, -1)
    return (
        torch.unflatten(output.transpose(1, 2), 2, groups),
        torch.unflatten(lse.transpose(1, 2), 2, groups),
    )
