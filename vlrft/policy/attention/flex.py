"""Packed rows for torch's flex_attention, which skips blocks of 128 x 128 that no query attends to.

The blocks are found from the bounds of the segments: nothing of L x L entries is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, no_type_check

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.attention.rows import PackedRows

BLOCK = 128  # positions of a block


def arguments(rows: PackedRows, embeds: Float[Tensor, "R L H"]) -> Mapping[str, Any]:
    """Arguments of a decoder's forward."""
    return {"attention_mask": sparse_mask(rows, embeds.device)}


def sparse_mask(rows: PackedRows, device: torch.device) -> Any:
    """The `BlockMask` of packed rows."""
    from torch.nn.attention.flex_attention import BlockMask

    segments = to_device(rows.ids(), device)

    @no_type_check  # flex_attention counts the parameters of the function it is given
    def allowed(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        segment = segments[row, key]
        return (query >= key) & ((segment == 0) | (segment == segments[row, query]))

    blocks = find_blocks(rows)
    counts = torch.from_numpy(blocks.sum(-1, dtype=np.int32))[:, None]
    # the blocks that a query's block attends to come first
    order = torch.from_numpy(np.argsort(~blocks, axis=-1, kind="stable").astype(np.int32))[:, None]
    return BlockMask.from_kv_blocks(
        to_device(counts, device),
        to_device(order, device),
        BLOCK_SIZE=BLOCK,
        mask_mod=allowed,
        seq_lengths=(rows.width, rows.width),
    )


def find_blocks(rows: PackedRows) -> np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]:
    """[R, B, B]: whether some query of a block of BLOCK positions attends to some key of a block.

    Every segment's queries attend to its own keys up to themselves and to the prompt; padding is a segment.
    """
    count = -(-rows.width // BLOCK)
    blocks = np.zeros((len(rows.segments), count, count), dtype=np.bool_)
    below = np.tri(count, dtype=np.bool_)
    for found, lengths in zip(blocks, rows.segments, strict=True):
        found[:, : -(-lengths[0] // BLOCK)] = True
        bounds = np.cumsum([0, *lengths, rows.width - sum(lengths)])
        for start, end in pairwise(bounds):
            if end > start:
                some = slice(start // BLOCK, -(-end // BLOCK))
                found[some, some] = True
        found &= below
    return blocks
