"""Attention of a vision tower, which stays within each image, or within each window of one: all of them in one call.

On a GPU the call is a kernel for sequences of different lengths. Elsewhere, and for dtypes and heads that this kernel does not
take, sequences of equal length make one batch: one call for each length that occurs. Windows have one length where the
window divides the image, else at most four.

transformers splits a tower's tokens into sequences itself, with a call and a device sync for each, unless the attention
function's name has `flash` in it: such a function gets the boundaries. `ATTENTION` is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from vlrft.distributed.cuda_settings import to_device
from vlrft.policy.attention import cuda_flash
from vlrft.policy.attention.choice import CUDA_FLASH, has_operator

ATTENTION = "vlrft_flash_tower"
SEQUENCES = "tower_sequences"  # argument of the tower's forward: `Sequences` by their number


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """Lengths of the sequences in which S tokens lie one after another. All but the tensors is known on the CPU, so that no
    call waits for the device."""

    boundaries: Int[Tensor, " bounds"]  # int32: 0 and the end of each sequence
    longest: int
    batches: tuple[tuple[int, int], ...]  # (number, length) of the sequences of each length
    order: Int[Tensor, " S"] | None  # the tokens batch by batch; None: they are so already
    inverse: Int[Tensor, " S"] | None


def make_sequences(boundaries: Int[Tensor, " bounds"], device: Any) -> Sequences:
    """`boundaries`: 0 and the end of each sequence, on the CPU."""
    lengths = boundaries.diff().long()
    by_length = lengths.argsort(stable=True)
    counts = Counter(lengths.tolist())
    order = inverse = None
    if bool((lengths.diff() < 0).any()):
        starts = boundaries[:-1].long()[by_length].repeat_interleave(lengths[by_length])
        ends = lengths[by_length].cumsum(0) - lengths[by_length]
        within = torch.arange(len(starts)) - ends.repeat_interleave(lengths[by_length])
        order = starts + within
        inverse = order.argsort()
    return Sequences(
        boundaries=to_device(boundaries.int(), device),
        longest=int(lengths.max()),
        batches=tuple((counts[length], length) for length in sorted(counts)),
        order=None if order is None else to_device(order, device),
        inverse=None if inverse is None else to_device(inverse, device),
    )


def attend_within(
    query: Float[Tensor, "S heads D"],
    key: Float[Tensor, "S heads D"],
    value: Float[Tensor, "S heads D"],
    sequences: Sequences,
    scale: float,
) -> Float[Tensor, "S heads D"]:
    """softmax(q·k · scale) v within each sequence."""
    if _takes_flash(query):
        ends, longest = sequences.boundaries, sequences.longest
        whole: Tensor = torch.ops.aten._flash_attention_forward(
            query, key, value, ends, ends, longest, longest, 0.0, False, False, scale=scale
        )[0]
        return whole
    outputs: list[Tensor] = []
    start = 0
    for count, length in sequences.batches:
        rows = slice(start, start + count * length)
        chosen = rows if sequences.order is None else sequences.order[rows]
        shape = (count, length, *query.shape[1:])
        q, k, v = (part[chosen].view(shape).transpose(1, 2) for part in (query, key, value))
        output = F.scaled_dot_product_attention(q, k, v, scale=scale)
        outputs.append(output.transpose(1, 2).flatten(0, 1))
        start = rows.stop
    joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
    return joined if sequences.inverse is None else joined[sequences.inverse]


def _takes_flash(query: Tensor) -> bool:
    if not query.is_cuda or not has_operator(CUDA_FLASH):
        return False
    return cuda_flash.suits(query.device, query.dtype, query.shape[-1])


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    cu_seq_lens_q: Tensor,
    tower_sequences: Mapping[int, Sequences] | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """transformers' interface; tensors [1, heads, S, D] -> [1, S, heads, D]. Images are sequences in some layers and windows
    in others; where there are as many windows as images they are the same."""
    if tower_sequences is None:  # transformers' own forward
        return _attend_one_by_one(module, (query, key, value), scaling, cu_seq_lens_q), None
    sequences = tower_sequences[len(cu_seq_lens_q) - 1]
    query, key, value = (part[0].transpose(0, 1) for part in (query, key, value))
    return attend_within(query, key, value, sequences, scaling)[None], None


def _attend_one_by_one(
    module: nn.Module, parts: tuple[Tensor, ...], scaling: float, boundaries: Tensor
) -> Tensor:
    """As transformers does without this function: the reference for `attend_within`."""
    from transformers import AttentionInterface

    attend = AttentionInterface()["sdpa"]
    lengths = boundaries.diff().tolist()
    sequences = zip(*(torch.split(part, lengths, dim=2) for part in parts), strict=True)
    outputs = [
        attend(module, *sequence, attention_mask=None, scaling=scaling, is_causal=False)[0]
        for sequence in sequences
    ]
    return torch.cat(outputs, dim=1)


def use_tower_attention(config: Any) -> bool:
    """Makes the tower of this config use `ATTENTION` in the place of sdpa; whether it does."""
    if config._attn_implementation == "sdpa":
        _register()
        config._attn_implementation = ATTENTION
    return bool(config._attn_implementation == ATTENTION)


@cache
def _register() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attend)
