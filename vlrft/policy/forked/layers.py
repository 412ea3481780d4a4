"""The kinds of a decoder's layers, as transformers' configs name them (`layer_types`)."""

from __future__ import annotations

import sys
from inspect import signature
from typing import Any

from torch import nn

FULL, RECURRENT = "full_attention", "linear_attention"
# settings of mixtures of experts
EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def attends_fully(config: Any) -> bool:
    """Whether every layer of a decoder of this config that attends does so to all earlier tokens."""
    kinds = getattr(config, "layer_types", None)
    if kinds is None:  # as in Mistral: one window for all layers
        return getattr(config, "sliding_window", None) is None
    return FULL in kinds and set(kinds) <= {FULL, RECURRENT}


def recurrent_layers(config: Any) -> tuple[int, ...]:
    """The indices of the recurrent layers."""
    kinds = getattr(config, "layer_types", None) or ()
    return tuple(k for k, kind in enumerate(kinds) if kind == RECURRENT)


def has_delta_rule(config: Any) -> bool:
    """Whether the recurrent layers are gated delta rules, whose states vlrft knows: those of Mamba, and others, go on from a
    state one token at a time alone."""
    return hasattr(config, "linear_num_value_heads")


def attends_by_name(decoder: nn.Module) -> bool:
    """Whether the decoder looks its attention function up by name, so that it can be replaced. transformers says so of
    decoders with full attention alone, `_supports_attention_backend`."""
    source = sys.modules.get(type(decoder).__module__)
    return hasattr(source, "ALL_ATTENTION_FUNCTIONS")


def has_experts(config: Any) -> bool:
    return any(getattr(config, name, None) for name in EXPERT_COUNTS)


def find_mixers(decoder: Any) -> list[nn.Module]:
    """The module of each recurrent layer that mixes its tokens: the one that takes a cache by the name of `cache_params`."""
    layers = [decoder.layers[index] for index in recurrent_layers(decoder.config)]
    return [module for layer in layers for module in layer.children() if _is_mixer(module)]


def _is_mixer(module: nn.Module) -> bool:
    return "cache_params" in signature(module.forward).parameters


def continues_states() -> bool:
    """Whether this release of transformers runs several tokens from a state, as forked rows need it."""
    from transformers import Cache, cache_utils

    layer = getattr(cache_utils, "LinearAttentionLayer", None)
    update = getattr(layer, "update_conv_state", None)
    return (
        hasattr(Cache, "get_conv_state")
        and update is not None
        and "conv_kernel_size" in signature(update).parameters
    )
