"""Attention in matrix products and a softmax: works on every device and for every dtype, in memory linear in the keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.policy.attention.kernel import Gradients

CHUNK_SCORES = 2**22  # scores that exist at once: 16 MiB in float32


class Plain:
    """See `Kernel`. A chunk of queries at a time, so that all scores never exist at once."""

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
        """See `Kernel.forward`. `lengths`, only without `causal`: how many keys of each sequence are attended to, the first
        ones; for a sequence with none the output is 0 and the log-sum-exp -inf."""
        exact, heads = _exact_dtype(query), key.shape[1]
        output = torch.empty_like(query)
        lse = query.new_empty(query.shape[:-1], dtype=exact)
        grouped, wide_key, wide_value = _group(query, heads), key.to(exact), value.to(exact)
        grouped_output, grouped_lse = _group(output, heads), _group(lse[..., None], heads)[..., 0]
        for chunk in _chunks(query, key, causal=causal, lengths=lengths):
            scores = chunk.scores(grouped, wide_key, scale)
            total = scores.logsumexp(-1)
            # a row of -inf alone: subtracting 0 keeps the exponentials at 0
            weights = (scores - total.masked_fill(total.isneginf(), 0)[..., None]).exp_()
            part = weights.flatten(2, 3) @ wide_value[:, :, : chunk.keys]
            grouped_output[:, :, :, chunk.queries] = part.view(*total.shape, -1).to(query.dtype)
            grouped_lse[:, :, :, chunk.queries] = total
        return grouped_output.flatten(1, 2), grouped_lse.flatten(1, 2)

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
        exact, heads = _exact_dtype(query), key.shape[1]
        grouped, wide_key, wide_value = _group(query, heads), key.to(exact), value.to(exact)
        grouped_grad, grouped_lse = _group(grad, heads), _group(lse[..., None], heads)
        # Σ_k p_k ∂/∂p_k of each query, from the output alone
        delta = _group((grad.to(exact) * output.to(exact)).sum(-1, keepdim=True), heads)
        grad_query = torch.zeros_like(grouped, dtype=exact)
        grad_key, grad_value = torch.zeros_like(wide_key), torch.zeros_like(wide_value)
        for chunk in _chunks(query, key, causal=causal):
            at, keys = chunk.queries, chunk.keys
            weights = (chunk.scores(grouped, wide_key, scale) - grouped_lse[:, :, :, at]).exp_()
            rows = grouped_grad[:, :, :, at].to(exact).flatten(2, 3)
            grad_value[:, :, :keys] += weights.flatten(2, 3).mT @ rows
            slopes = (rows @ wide_value[:, :, :keys].mT).view_as(weights)
            slopes = (slopes.sub_(delta[:, :, :, at])).mul_(weights).mul_(scale).flatten(2, 3)
            part = slopes @ wide_key[:, :, :keys]
            grad_query[:, :, :, at] = part.view_as(grad_query[:, :, :, at])
            grad_key[:, :, :keys] += slopes.mT @ grouped[:, :, :, at].to(exact).flatten(2, 3)
        return (
            grad_query.flatten(1, 2).to(query.dtype),
            grad_key.to(key.dtype),
            grad_value.to(value.dtype),
        )


@dataclass(frozen=True, kw_only=True)
class _Chunk:
    """Some queries and the first keys, those that they may attend to."""

    queries: slice
    keys: int
    excluded: Tensor | None  # of the scores [B W R C K], those that do not count

    def scores(self, grouped: Tensor, wide_key: Tensor, scale: float) -> Tensor:
        """[B W R C K]; -inf where a query does not attend to a key."""
        rows = grouped[:, :, :, self.queries].to(wide_key.dtype) * scale
        scores = rows.flatten(2, 3) @ wide_key[:, :, : self.keys].mT
        scores = scores.view(*rows.shape[:4], self.keys)
        if self.excluded is not None:
            scores.masked_fill_(self.excluded, -torch.inf)
        return scores


def _chunks(
    query: Tensor, key: Tensor, *, causal: bool, lengths: Tensor | None = None
) -> Iterator[_Chunk]:
    batch, heads, count = query.shape[:3]
    keys = key.shape[2]
    size = max(1, CHUNK_SCORES // max(1, batch * heads * keys))
    places = torch.arange(keys, device=key.device)
    excluded = None if lengths is None else (places >= lengths[:, None])[:, None, None, None]
    for start in range(0, count if batch else 0, size):
        end = min(start + size, count)
        if causal:
            excluded = places[:end] > places[start:end, None]
        yield _Chunk(queries=slice(start, end), keys=end if causal else keys, excluded=excluded)


def _group(tensor: Float[Tensor, "B H Q D"], heads: int) -> Float[Tensor, "B W R Q D"]:
    """The R query heads of each of the `heads` key heads."""
    batch, all_heads, count, width = tensor.shape
    return tensor.view(batch, heads, all_heads // heads, count, width)


def _exact_dtype(query: Tensor) -> torch.dtype:
    return torch.promote_types(query.dtype, torch.float32)
