"""Packed rows for an attention that takes a mask of every query and key: quadratic in the length of a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.attention.rows import PackedRows


def arguments(rows: PackedRows, embeds: Float[Tensor, "R L H"]) -> Mapping[str, Any]:
    """Arguments of a decoder's forward: the mask as numbers that are added to the scores."""
    allowed = block_mask(to_device(rows.ids(), embeds.device))[:, None]
    least = torch.finfo(embeds.dtype).min
    mask = torch.zeros_like(allowed, dtype=embeds.dtype).masked_fill(~allowed, least)
    return {"attention_mask": mask}


def block_mask(segments: Int[Tensor, "R L"]) -> Bool[Tensor, "R L L"]:
    """Which keys (last axis) a position attends to: those before it in the prompt and in its segment."""
    length = segments.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=segments.device).tril()
    query, key = segments[:, :, None], segments[:, None, :]
    return causal & ((key == 0) | (key == query))
