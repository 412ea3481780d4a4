"""Packed rows as one row of the tokens that differ: without padding, and with the beginning that all prompts share once.

Few-shot examples, or the instructions of a long system message, are most of every prompt of a batch. A causal decoder computes
the same for them in every row. All of its layers but attention work on single tokens, so they can run the tokens of all rows side by
side, each once; attention alone is that of the rows as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.attention.calls import Calls, TokenGradients
from vlrft.policy.attention.rows import PackedRows
from vlrft.schema import Prompt

LEAST_SHARE = 0.25  # of the positions: with less to leave out, rows run as they are


@dataclass(frozen=True, kw_only=True)
class CompactRows:
    """Where the tokens are. Axes: T = R · L positions of the flattened rows, U tokens that are run."""

    kept: Int[Tensor, " U"]  # positions of the flattened rows
    places: Int[Tensor, " T"]  # of each position, in the kept ones; of padding, some
    shape: tuple[int, int]  # R, L
    common: int  # tokens at the beginning of every row that are run in the first row alone

    @staticmethod
    def of(rows: PackedRows, device: torch.device) -> CompactRows | None:
        """None where too little would be left out."""
        count, width = len(rows.segments), rows.width
        kept = torch.zeros(count, width, dtype=torch.bool)
        for row, lengths in enumerate(rows.segments):
            kept[row, (rows.common if row else 0) : sum(lengths)] = True
        places = (kept.flatten().cumsum(0) - 1).clamp_min(0).view(count, width)
        places[:, : rows.common] = torch.arange(rows.common)
        at = kept.flatten().nonzero()[:, 0]
        if len(at) > (1 - LEAST_SHARE) * kept.numel():
            return None
        return CompactRows(
            kept=to_device(at, device),
            places=to_device(places.flatten(), device),
            shape=(count, width),
            common=rows.common,
        )

    def keep(self, positions: Float[Tensor, "T ..."]) -> Float[Tensor, "U ..."]:
        """Values of the positions, at those of the tokens that are run."""
        return positions.index_select(0, self.kept)

    def spread(self, tokens: Float[Tensor, "U ..."]) -> Float[Tensor, "T ..."]:
        """The tokens at their positions in the rows, and at padding some. Differentiable once; padding has no gradient."""
        spread: Tensor = _Spread.apply(tokens, self)  # type: ignore[no-untyped-call]
        return spread

    def fold(self, gradient: Float[Tensor, "T ..."]) -> Float[Tensor, "U ..."]:
        """The gradient of tokens from that of their positions. Rows are summed in order and rounded once, which the gradient
        of indexing in torch does not do: its order is that of threads, its sums are in the dtype of the gradient."""
        folded = self.keep(gradient)
        rows = gradient.reshape(*self.shape, *gradient.shape[1:])
        folded[: self.common] = rows[:, : self.common].sum(0)
        return folded

    def spread_heads(self, tokens: Float[Tensor, "1 W U D"]) -> Float[Tensor, "R W L D"]:
        """Keys or values of the rows, from those of the tokens that are run."""
        heads, width = tokens.shape[1], tokens.shape[3]
        return tokens[0][:, self.places].view(heads, *self.shape, width).transpose(0, 1)


class _Spread(torch.autograd.Function):
    """`CompactRows.spread`."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, compact: CompactRows) -> Tensor:
        ctx.compact = compact
        return tokens.index_select(0, compact.places)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ctx.compact.fold(grad), None


@dataclass(frozen=True, kw_only=True)
class CompactCalls:
    """See `Calls`: those of the rows, for the U tokens that are run. Copies of tokens exist only during a call."""

    calls: Calls
    compact: CompactRows

    def forward(
        self,
        query: Float[Tensor, "U H D"],
        key: Float[Tensor, "U W D"],
        value: Float[Tensor, "U W D"],
        scale: float,
    ) -> tuple[Float[Tensor, "U H D"], Tensor]:
        """See `Calls.forward`. The log-sum-exp is that of all positions."""
        spread = self.compact.spread
        output, lse = self.calls.forward(spread(query), spread(key), spread(value), scale)
        return self.compact.keep(output), lse

    def backward(
        self,
        grad: Float[Tensor, "U H D"],
        query: Float[Tensor, "U H D"],
        key: Float[Tensor, "U W D"],
        value: Float[Tensor, "U W D"],
        output: Float[Tensor, "U H D"],
        lse: Tensor,
        scale: float,
    ) -> TokenGradients:
        """See `Calls.backward`."""
        upstream = grad.new_zeros(len(self.compact.places), *grad.shape[1:])
        upstream.index_copy_(0, self.compact.kept, grad)
        query, key, value, output = map(self.compact.spread, (query, key, value, output))
        gradients = self.calls.backward(upstream, query, key, value, output, lse, scale)
        by_query, by_key, by_value = map(self.compact.fold, gradients)
        return by_query, by_key, by_value


def count_common_tokens(prompts: Sequence[Prompt], place_ids: Sequence[int]) -> int:
    """How many tokens all prompts begin with, up to the first image or video, whose features may differ."""
    first, *others = (prompt.ids for prompt in prompts)
    if not others:
        return 0
    least = min(map(len, (first, *others)))
    same = np.ones(least, dtype=bool)
    head = np.array(first[:least])
    for ids in others:
        same &= head == np.array(ids[:least])
    same &= ~np.isin(head, place_ids)
    return least if same.all() else int(same.argmin())
