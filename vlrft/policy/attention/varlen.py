"""Packed rows for FlashAttention on CUDA, whose varlen form takes sequences of any lengths, one after another, without
padding: two calls for all rows.

Without a GPU the layout is tested with a definition of the two operators, their shapes with fake tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.attention.calls import TokenGradients
from vlrft.policy.attention.cuda_flash import no_dropout
from vlrft.policy.attention.join import join
from vlrft.policy.attention.rows import PackedRows, Span


class Sequences:
    """The arguments of the kernel for sequences of these lengths."""

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        ends = list(accumulate(lengths, initial=0))
        self.ends: Int[Tensor, " S1"] = to_device(torch.tensor(ends, dtype=torch.int32), device)
        self.longest = max(lengths)


class VarlenCalls:
    """See `Calls`. The log-sum-exp is [H T]. Padding is a sequence of its own, so that no token is gathered for the first
    call."""

    def __init__(self, rows: PackedRows, device: torch.device) -> None:
        lengths = []
        for segments in rows.segments:
            lengths += [n for n in (*segments, rows.width - sum(segments)) if n]
        self._own = Sequences(lengths, device)
        shared = rows.shared()
        self._completions = [completions for completions, _ in shared]
        self._prompts = [prompt for _, prompt in shared]
        if shared:
            self._queries = Sequences([span.length for span in self._completions], device)
            self._keys = Sequences([span.length for span in self._prompts], device)

    def forward(
        self,
        query: Float[Tensor, "T H D"],
        key: Float[Tensor, "T W D"],
        value: Float[Tensor, "T W D"],
        scale: float,
    ) -> tuple[Float[Tensor, "T H D"], Float[Tensor, "H T"]]:
        """See `Calls.forward`."""
        own = self._own
        output, lse = _forward(query, key, value, own, own, causal=True, scale=scale)
        if self._completions:
            other, other_lse = _forward(
                *self._over_prompts(query, key, value),
                self._queries,
                self._keys,
                causal=False,
                scale=scale,
            )
            own_output, own_lse = (
                _gather(output, self._completions),
                _gather(lse.T, self._completions),
            )
            joined = join(own_output, own_lse, other, other_lse.T)
            _scatter(joined[0], output, self._completions)
            _scatter(joined[1], lse.T, self._completions)
        return output, lse

    def backward(
        self,
        grad: Float[Tensor, "T H D"],
        query: Float[Tensor, "T H D"],
        key: Float[Tensor, "T W D"],
        value: Float[Tensor, "T W D"],
        output: Float[Tensor, "T H D"],
        lse: Float[Tensor, "H T"],
        scale: float,
    ) -> TokenGradients:
        """See `Calls.backward`."""
        own = self._own
        grads = _backward(grad, query, key, value, output, lse, own, own, causal=True, scale=scale)
        if self._completions:
            shares = _backward(
                _gather(grad, self._completions),
                *self._over_prompts(query, key, value),
                _gather(output, self._completions),
                _gather(lse.T, self._completions).T.contiguous(),
                self._queries,
                self._keys,
                causal=False,
                scale=scale,
            )
            spans = self._completions, self._prompts, self._prompts
            for share, target, some in zip(shares, grads, spans, strict=True):
                _scatter(share, target, some, add=True)
        return grads

    def _over_prompts(
        self, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        prompts = self._prompts
        return _gather(query, self._completions), _gather(key, prompts), _gather(value, prompts)


def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries: Sequences,
    keys: Sequences,
    *,
    causal: bool,
    scale: float,
) -> tuple[Float[Tensor, "M H D"], Float[Tensor, "H M"]]:
    output, lse, *_ = torch.ops.aten._flash_attention_forward(
        query,
        key,
        value,
        queries.ends,
        keys.ends,
        queries.longest,
        keys.longest,
        0.0,
        causal,
        return_debug_mask=False,
        scale=scale,
    )
    return output, lse


def _backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    lse: Tensor,
    queries: Sequences,
    keys: Sequences,
    *,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    gradients: tuple[Tensor, Tensor, Tensor] = torch.ops.aten._flash_attention_backward(
        grad,
        query,
        key,
        value,
        output,
        lse,
        queries.ends,
        keys.ends,
        queries.longest,
        keys.longest,
        0.0,
        causal,
        *no_dropout(query.device),
        scale=scale,
    )
    return gradients


def _gather(tensor: Float[Tensor, "T ..."], spans: list[Span]) -> Float[Tensor, "M ..."]:
    """The tokens of the spans; a view where there is one span."""
    parts = [tensor.narrow(0, span.start, span.length) for span in spans]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _scatter(
    tokens: Float[Tensor, "M ..."],
    target: Float[Tensor, "T ..."],
    spans: list[Span],
    *,
    add: bool = False,
) -> None:
    """Writes, or adds, the tokens of the spans."""
    parts = torch.split(tokens, [span.length for span in spans])
    for span, part in zip(spans, parts, strict=True):
        place = target.narrow(0, span.start, span.length)
        if add:
            place.add_(part)
        else:
            place.copy_(part)
