"""Packed rows as one row of the tokens that differ: without padding, and with the beginning that all prompts share once.

Few-shot examples, or the instructions of a long system message, are most of every prompt of a batch. A causal decoder computes
the same for them in every row. All of its layers but attention work on single tokens, so they can run the tokens of all rows side by
side, each once; attention alone is that of the rows as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.attention.rows import PackedRows
from vlrft.schema import Prompt

LEAST_SHARE = 0.25  # of the positions: with less to leave out, rows run as they are


@dataclass(frozen=True, kw_only=True)
class CompactRows:
    """Where the tokens are. Axes: T = R · L positions of the flattened rows, U tokens that are run."""

    kept: Int[Tensor, " U"]  # positions of the flattened rows
    places: Int[Tensor, " T"]  # of each position, in the kept ones; of padding, some
    shape: tuple[int, int]  # R, L

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
        )

    def spread_heads(self, tokens: Float[Tensor, "1 W U D"]) -> Float[Tensor, "R W L D"]:
        """Keys or values of the rows, from those of the tokens that are run."""
        heads, width = tokens.shape[1], tokens.shape[3]
        return tokens[0][:, self.places].view(heads, *self.shape, width).transpose(0, 1)


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
