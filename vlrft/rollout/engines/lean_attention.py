"""The attention layers of known families with fewer operators while tokens are sampled; equal to the last bit.

transformers rotates queries and keys one after the other, in five operators each; here they are rotated together in five.
Layers of other classes run as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vlrft.policy.families import all_families
from vlrft.rollout.engines.shared_prefix import Keys, attend_shared_prefix


@contextmanager
def lean_attention(decoder: nn.Module) -> Iterator[None]:
    """A context in which the decoder's attention layers, where a family names their class, decode with `_forward`."""
    classes = {family.attention_class for family in all_families().values()}
    layers = [module for module in decoder.modules() if type(module).__name__ in classes]
    before = [layer.__dict__.get("forward") for layer in layers]
    for layer in layers:
        layer.forward = partial(_forward, layer, layer.forward)
    try:
        yield
    finally:
        for layer, forward in zip(layers, before, strict=True):
            if forward is None:
                del layer.forward
            else:
                layer.forward = forward


def _forward(
    layer: Any,
    original: Callable[..., Any],
    hidden_states: Float[Tensor, "N L H"],
    position_embeddings: tuple[Tensor, Tensor] | None = None,
    *,
    past_key_values: Any = None,
    shared_prefix: Keys | None = None,
    **options: Any,
) -> tuple[Float[Tensor, "N L H"], Any]:
    """In place of the layer's forward; anything but a decoding step is left to `original`."""
    if shared_prefix is None or position_embeddings is None:
        result: tuple[Tensor, Any] = original(
            hidden_states=hidden_states,
            position_embeddings=position_embeddings,
            past_key_values=past_key_values,
            **options,
        )
        return result
    shape = (len(hidden_states), 1, -1, layer.head_dim)
    query = layer.q_proj(hidden_states).view(shape)
    key = layer.k_proj(hidden_states).view(shape)
    value = layer.v_proj(hidden_states).view(shape)
    rotated = _rotate(torch.cat([query, key], 2), *shared_prefix.rotation(position_embeddings))
    query, key = torch.split(rotated, [query.shape[2], key.shape[2]], 2)
    keys, values = past_key_values.update(
        key.transpose(1, 2), value.transpose(1, 2), layer.layer_idx
    )
    output, _ = attend_shared_prefix(
        layer,
        query.transpose(1, 2),
        keys,
        values,
        None,
        scaling=layer.scaling,
        shared_prefix=shared_prefix,
        sliding_window=layer.sliding_window,
    )
    return layer.o_proj(output.flatten(2)), None


def _rotate(
    heads: Float[Tensor, "N 1 H D"], cos: Float[Tensor, "N 1 1 D"], sin: Float[Tensor, "N 1 1 D"]
) -> Float[Tensor, "N 1 H D"]:
    """Rotary positions. `sin`: its first half negated, in place of that of the heads."""
    return heads * cos + heads.roll(heads.shape[-1] // 2, -1) * sin
