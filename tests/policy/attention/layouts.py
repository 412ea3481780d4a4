"""Packed rows in every shape that training meets, and their attention as it is defined."""

from __future__ import annotations

import random

import torch
from torch import Tensor
from torch.nn import functional

from vlrft.policy.attention.dense import block_mask
from vlrft.policy.attention.rows import PackedRows

HEADS, KEY_HEADS, WIDTH = 4, 2, 8
SCALE = 0.4


def packed_rows(*segments: tuple[int, ...]) -> PackedRows:
    """Rows of these segments, padded to the longest."""
    return PackedRows(segments=segments, width=max(map(sum, segments)))


def large_group(rows: int) -> PackedRows:
    """One prompt with completions of unequal lengths, some of them not run."""
    draw = random.Random(0)
    return packed_rows((11, *(draw.randrange(9) for _ in range(rows))))


LAYOUTS = {
    "one row": packed_rows((5, 3)),
    "equal completions": packed_rows((6, 4, 4, 4)),
    "nothing but a prompt": packed_rows((7,), (3, 0, 0)),
    "ragged groups, prompts of unequal length": packed_rows(
        (5, 3, 0, 2), (1, 2), (9, 4, 1, 4), (2,)
    ),
    "a group of 64": large_group(64),
    "several buckets": packed_rows((40, 80, 3, 75), (20, 60, 2)),
}


def draw_inputs(
    rows: PackedRows, dtype: torch.dtype
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Query, key and value, and the gradient of the output, which is 0 at padding."""
    generator = torch.Generator().manual_seed(0)
    count, width = len(rows.segments), rows.width
    shapes = [(count, heads, width, WIDTH) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
    shapes.append((count, width, HEADS, WIDTH))
    query, key, value, grad = (
        torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes
    )
    grad[rows.ids() < 0] = 0
    return (query.requires_grad_(), key.requires_grad_(), value.requires_grad_()), grad


def define(query: Tensor, key: Tensor, value: Tensor, rows: PackedRows) -> Tensor:
    """[R L H D], with a mask of every query and key."""
    mask = block_mask(rows.ids())[:, None]
    output = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=SCALE, enable_gqa=True
    )
    return output.transpose(1, 2)
