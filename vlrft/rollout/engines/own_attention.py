"""Decoder calls whose attention, and whose keys and values, are the engine's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from torch import Tensor

from vlrft.policy.backbone import Backbone, attending


@contextmanager
def own_attention(
    backbone: Backbone, name: str, attend: Callable[..., Any], embeds: Tensor
) -> Iterator[Mapping[str, Tensor]]:
    """A context in which the decoder attends by `attend`, which transformers knows as `name`; arguments for its calls on
    `embeds` [B L H]."""
    _register(name, attend)
    with attending(backbone.decoder.config, name):
        # A mask of four axes is handed on by decoders, who without one would make their own; it is not read.
        yield {"attention_mask": embeds[:1, None]}


@cache
def _register(name: str, attend: Callable[..., Any]) -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(name, attend)
