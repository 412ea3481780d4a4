"""Packed rows for kernels whose sequences have one length: segments of similar lengths are padded to the longest of them.

Padding is after a segment, where causality hides it: the result is exact. A prompt's completions attend to it in one
call, whose queries and keys are views.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.attention.calls import TokenGradients
from vlrft.policy.attention.join import join
from vlrft.policy.attention.kernel import Kernel
from vlrft.policy.attention.rows import PackedRows, Span

# A segment is padded to at most 1 / SHARE of its length, or by SPARE positions.
SHARE = 0.8
SPARE = 32


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """Segments that are attended over in one call. Axes: S segments, Q positions of the longest, M tokens."""

    positions: Int[Tensor, " SQ"]  # index into [T]; after a segment's end, its last token again
    count: int  # S
    padding: Bool[Tensor, " SQ"] | None  # None: there is none
    tokens: Int[Tensor, " M"]  # index into [T] of the positions that are no padding
    places: Int[Tensor, " M"] | None  # their index into [SQ]; None: all, in order

    def take(self, tensor: Float[Tensor, "T ..."]) -> Float[Tensor, "S H Q D"]:
        """The bucket's sequences."""
        rows = tensor.index_select(0, self.positions)
        return rows.view(self.count, -1, *tensor.shape[1:]).transpose(1, 2)

    def put(self, sequences: Float[Tensor, "S H Q ..."], target: Float[Tensor, "T H ..."]) -> None:
        """Writes the sequences, without padding, to their places."""
        rows = sequences.transpose(1, 2).flatten(0, 1)
        if self.places is not None:
            rows = rows.index_select(0, self.places)
        target.index_copy_(0, self.tokens, rows)


class PaddedCalls:
    """See `Calls`. The log-sum-exp is [T H]."""

    def __init__(self, kernel: Kernel, rows: PackedRows, device: torch.device) -> None:
        self._kernel = kernel
        self._full = rows.full
        self._buckets = [make_bucket(spans, device) for spans in group_spans(rows.spans())]
        self._shared = rows.shared()

    def forward(
        self,
        query: Float[Tensor, "T H D"],
        key: Float[Tensor, "T W D"],
        value: Float[Tensor, "T W D"],
        scale: float,
    ) -> tuple[Float[Tensor, "T H D"], Float[Tensor, "T H"]]:
        """See `Calls.forward`."""
        exact = torch.promote_types(query.dtype, torch.float32)
        empty = torch.empty if self._full else torch.zeros
        output = empty(query.shape, dtype=query.dtype, device=query.device)
        lse = empty(query.shape[:2], dtype=exact, device=query.device)
        for bucket in self._buckets:
            some = bucket.take(query), bucket.take(key), bucket.take(value)
            some_output, some_lse = self._kernel.forward(*some, causal=True, scale=scale)
            bucket.put(some_output, output)
            bucket.put(some_lse, lse)
        for completions, prompt in self._shared:
            parts = _over_prompt(completions, prompt, query, key, value)
            other, other_lse = self._kernel.forward(*parts, causal=False, scale=scale)
            own, own_lse = _slice(output, completions), _slice(lse, completions)
            joined = join(own, own_lse, _tokens(other), other_lse[0].T)
            own.copy_(joined[0])
            own_lse.copy_(joined[1])
        return output, lse

    def backward(
        self,
        grad: Float[Tensor, "T H D"],
        query: Float[Tensor, "T H D"],
        key: Float[Tensor, "T W D"],
        value: Float[Tensor, "T W D"],
        output: Float[Tensor, "T H D"],
        lse: Float[Tensor, "T H"],
        scale: float,
    ) -> TokenGradients:
        """See `Calls.backward`."""
        empty = torch.empty if self._full else torch.zeros
        grads = [empty(t.shape, dtype=t.dtype, device=t.device) for t in (query, key, value)]
        for bucket in self._buckets:
            some_grad, some_output = bucket.take(grad), bucket.take(output)
            if bucket.padding is not None:
                rows = some_grad.transpose(1, 2).flatten(0, 1)  # a view of what was taken
                rows.masked_fill_(bucket.padding[:, None, None], 0)
            some_lse = bucket.take(lse[..., None])[..., 0]
            some = bucket.take(query), bucket.take(key), bucket.take(value)
            shares = self._kernel.backward(
                some_grad, *some, some_output, some_lse, causal=True, scale=scale
            )
            for share, target in zip(shares, grads, strict=True):
                bucket.put(share, target)
        for completions, prompt in self._shared:
            parts = _over_prompt(completions, prompt, query, key, value)
            shares = self._kernel.backward(
                _sequence(grad, completions),
                *parts,
                _sequence(output, completions),
                _slice(lse, completions).T[None],
                causal=False,
                scale=scale,
            )
            for share, target, span in zip(
                shares, grads, (completions, prompt, prompt), strict=True
            ):
                _slice(target, span).add_(_tokens(share))
        return grads[0], grads[1], grads[2]


def group_spans(spans: list[Span]) -> list[list[Span]]:
    """Spans of similar lengths together, the longest first."""
    groups: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: -span.length):
        longest = groups[-1][0].length if groups else 0
        if groups and span.length >= min(SHARE * longest, longest - SPARE):
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def make_bucket(spans: list[Span], device: torch.device) -> Bucket:
    """The bucket of these segments, its indices on the device."""
    starts = torch.tensor([span.start for span in spans])[:, None]
    lengths = torch.tensor([span.length for span in spans])[:, None]
    offsets = torch.arange(int(lengths.max()))
    positions = to_device((starts + offsets.minimum(lengths - 1)).flatten(), device)
    padding = (offsets >= lengths).flatten()
    if not padding.any():
        return Bucket(
            positions=positions, count=len(spans), padding=None, tokens=positions, places=None
        )
    places = to_device((~padding).nonzero()[:, 0], device)
    return Bucket(
        positions=positions,
        count=len(spans),
        padding=to_device(padding, device),
        tokens=positions[places],
        places=places,
    )


def _over_prompt(
    completions: Span, prompt: Span, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return _sequence(query, completions), _sequence(key, prompt), _sequence(value, prompt)


def _slice(tensor: Tensor, span: Span) -> Tensor:
    return tensor[span.start : span.end]


def _sequence(tensor: Float[Tensor, "T H D"], span: Span) -> Float[Tensor, "1 H Q D"]:
    return _slice(tensor, span).transpose(0, 1)[None]


def _tokens(sequence: Float[Tensor, "1 H Q D"]) -> Float[Tensor, "Q H D"]:
    return sequence[0].transpose(0, 1)
