"""Packed attention as transformers' decoders call it: under a name, with arguments of the decoder's forward.

`PACKED` takes the place of sdpa. Handed packed rows it runs them without a mask; without them, as in transformers' own
forward, it is sdpa. The name stays in the decoder's config, because activation checkpointing calls the layers again in the
backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from jaxtyping import Float
from torch import Tensor

from vlrft.policy.attention import dense, flex
from vlrft.policy.attention.compact import CompactRows
from vlrft.policy.attention.packed import PackedAttention
from vlrft.policy.attention.rows import PackedRows
from vlrft.schema.errors import ConfigError

PACKED = "vlrft_packed"  # the name under which transformers knows the attention function
# Arguments of a transformers attention function that change its result, and that the kernels do not have.
UNSUPPORTED = ("softcap", "s_aux", "position_bias")


def install(config: Any) -> None:
    """Lets the decoder of this config run packed rows without a mask, if its attention is sdpa."""
    _register()
    if config._attn_implementation == "sdpa":
        config._attn_implementation = PACKED


def packed_arguments(
    name: str, rows: PackedRows, embeds: Float[Tensor, "R L H"]
) -> Mapping[str, Any]:
    """Arguments of the forward of a decoder whose attention is `name`, with which it runs packed rows."""
    return ARGUMENTS[name](rows, embeds)


def compact_arguments(
    name: str, rows: PackedRows, embeds: Float[Tensor, "R L H"]
) -> Mapping[str, Any] | None:
    """The same for compact rows, which are in `packed.compact`; None where the attention runs rows only as they are, or too
    little would be left out."""
    compact = CompactRows.of(rows, embeds.device) if name == PACKED else None
    return None if compact is None else _arguments(rows, embeds, compact)


def refuse_unsupported(options: Mapping[str, Any], dropout: float, longest: int) -> None:
    """Raises ConfigError for an attention that the kernels do not compute. `options`, `dropout`: those that a decoder hands
    to its attention function; `longest`: tokens of the longest unpacked row."""
    for name in UNSUPPORTED:
        if options.get(name) is not None:
            raise ConfigError([f"policy.model: its attention has {name}; {_REMEDY}"])
    if dropout:
        raise ConfigError(
            [
                f"policy.model: its attention has dropout {dropout:g}; set attention_dropout to 0 in its config.json"
            ]
        )
    window = options.get("sliding_window")
    if window is not None and window < longest:
        raise ConfigError(
            [
                f"policy.model: its attention has a window of {window} tokens, and a row has {longest}; shorten prompts "
                "or rollout.max_tokens, or use another model"
            ]
        )


_REMEDY = "vlrft neither trains nor samples with that; use another model"


def _packed_attention(
    module: Any,
    query: Float[Tensor, "R H L D"],
    key: Float[Tensor, "R W K D"],
    value: Float[Tensor, "R W K D"],
    attention_mask: Any,
    *,
    packed: PackedAttention | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[Float[Tensor, "R L H D"], None]:
    """An attention function for transformers."""
    if packed is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        plain: tuple[Tensor, None] = sdpa_attention_forward(
            module,
            query,
            key,
            value,
            attention_mask,
            scaling=scaling,
            dropout=dropout,
            **options,
        )
        return plain
    refuse_unsupported(options, dropout, packed.rows.longest)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return packed(query, key, value, scale), None


def _arguments(
    rows: PackedRows, embeds: Float[Tensor, "R L H"], compact: CompactRows | None = None
) -> Mapping[str, Any]:
    """The rows. A mask of four axes is handed on by decoders, who without one would make their own; it is not read."""
    packed = PackedAttention(rows, compact)
    return {"attention_mask": embeds.new_empty(1, 1, 1, 1), "packed": packed}


ARGUMENTS: Mapping[str, Callable[[PackedRows, Tensor], Mapping[str, Any]]] = {
    PACKED: _arguments,
    "eager": dense.arguments,
    "flex_attention": flex.arguments,
}


@cache
def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(PACKED, _packed_attention)
    AttentionMaskInterface.register(PACKED, sdpa_mask)
