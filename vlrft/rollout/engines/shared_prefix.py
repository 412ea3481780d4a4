"""Decoding with the keys and values of prompts held once: all completions of a prompt attend to the same copy.

A row attends to its prompt (P keys, shared) and to its own tokens (T keys). The two softmaxes are joined exactly:
o = σ(l_p − l_o) o_p + σ(l_o − l_p) o_o, with l the log-sum-exp of a part's scores and o its output. Memory is
B·P + N·T keys instead of N·(P + T), and a step copies none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vlrft.policy.backbone import Backbone, attending
from vlrft.schema import DataError

ATTENTION = "vlrft_shared_prefix"  # its name among transformers' attention functions


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """Prompts that rows continue. Axes: B prompts, P positions, W key heads, D their width, N rows, S the most rows
    of a prompt."""

    keys: tuple[Float[Tensor, "B W P D"], ...]  # a layer each
    values: tuple[Float[Tensor, "B W P D"], ...]
    bias: Float[Tensor, "B 1 1 P"]  # 0, and -inf at padding
    slots: Int[Tensor, " N"]  # where each row stands among [B S]
    width: int  # S

    @staticmethod
    def of(filled: Any, real: Bool[Tensor, "B P"], rows: Int[Tensor, " B"]) -> Prefix:
        """From a cache that holds the prompts; `rows`: completions of each, one at least."""
        keys = tuple(layer.keys for layer in filled.layers)
        bias = torch.zeros_like(real, dtype=torch.float32).masked_fill(~real, -torch.inf)
        slots, width = _slots(rows)
        return Prefix(
            keys=keys,
            values=tuple(layer.values for layer in filled.layers),
            bias=bias[:, None, None],
            slots=slots,
            width=width,
        )

    def take(self, index: Int[Tensor, " M"]) -> Prefix:
        """For the rows of an ascending `index` alone; prompts that none of them continues are let go."""
        prompts = torch.bincount(self.slots[index] // self.width, minlength=len(self.bias))
        slots, width = _slots(prompts[prompts > 0])
        if bool((prompts > 0).all()):
            return replace(self, slots=slots, width=width)
        kept = prompts.nonzero()[:, 0]
        return Prefix(
            keys=tuple(k[kept] for k in self.keys),
            values=tuple(v[kept] for v in self.values),
            bias=self.bias[kept],
            slots=slots,
            width=width,
        )

    def attend(
        self, layer: int, query: Float[Tensor, "N W R D"]
    ) -> tuple[Float[Tensor, "N W R D"], Float[Tensor, "N W R 1"]]:
        """Output and log-sum-exp of scaled queries, R of which share a key head."""
        prompts, heads, _, size = self.keys[layer].shape
        shared = query.shape[2]
        spread = query.new_zeros(prompts * self.width, heads, shared, size)
        spread = spread.index_copy(0, self.slots, query)
        spread = spread.view(prompts, self.width, heads, shared, size).transpose(1, 2)
        found, total = _attended(
            spread.flatten(2, 3), self.keys[layer], self.values[layer], self.bias
        )
        return self._rows(found, shared), self._rows(total, shared)

    def _rows(self, grouped: Float[Tensor, "B W SR D"], shared: int) -> Float[Tensor, "N W R D"]:
        prompts, heads, _, size = grouped.shape
        rows = grouped.view(prompts, heads, self.width, shared, size).transpose(1, 2)
        return rows.reshape(prompts * self.width, heads, shared, size)[self.slots]


def _slots(rows: Int[Tensor, " B"]) -> tuple[Int[Tensor, " N"], int]:
    """Rows lie prompt by prompt; S is the most of them."""
    width = int(rows.max())
    prompt = torch.arange(len(rows), device=rows.device).repeat_interleave(rows)
    first = (rows.cumsum(0) - rows)[prompt]
    return prompt * width + torch.arange(len(prompt), device=rows.device) - first, width


def _attended(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """softmax(q·k + bias) v and the log-sum-exp of the scores, in float32 at least."""
    scores = query @ keys.transpose(-1, -2)
    if scores.dtype != torch.float64:
        scores = scores.float()
    if bias is not None:
        scores = scores + bias
    total = scores.logsumexp(-1, keepdim=True)
    return (scores - total).exp().to(values.dtype) @ values, total


def _shared_prefix_attention(
    module: Any,
    query: Float[Tensor, "N H 1 D"],
    key: Float[Tensor, "N W T D"],
    value: Float[Tensor, "N W T D"],
    attention_mask: object,
    *,
    scaling: float,
    prefix: Prefix,
    **options: Any,
) -> tuple[Float[Tensor, "N 1 H D"], None]:
    """An attention function of transformers: one new token a row; all keys of its own are real."""
    for name in ("softcap", "s_aux", "position_bias"):
        if options.get(name) is not None:
            raise DataError(f"this model's attention has {name}, which vlrft does not sample with")
    rows, heads, _, size = query.shape
    grouped = (query * scaling).view(rows, key.shape[1], -1, size)
    past, past_total = prefix.attend(module.layer_idx, grouped)
    own, own_total = _attended(grouped, key, value)
    share = (past_total - own_total).sigmoid().to(own.dtype)
    return torch.lerp(own, past, share).reshape(rows, 1, heads, size), None


def decode(
    backbone: Backbone,
    embeds: Float[Tensor, "N 1 H"],
    positions: Int[Tensor, "A N 1"],
    own: OwnTokens,
    prefix: Prefix,
) -> Float[Tensor, "N 1 H"]:
    """Hidden states of one new token a row; its keys and values are added to `own`, the rows' cache."""
    _register()
    with attending(backbone.decoder.config, ATTENTION):
        return backbone.call_decoder(
            embeds, positions, attention_mask=prefix.bias, past_key_values=own, prefix=prefix
        )


@cache
def _register() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _shared_prefix_attention)


class OwnTokens:
    """Keys and values of the rows' own tokens, filled in place: what a decoder needs of a cache."""

    def __init__(self, layers: int, steps: int) -> None:
        """Room for `steps` tokens a row, taken when a layer is first used."""
        self.steps = steps
        self.filled = [0] * layers
        self._kept: list[tuple[Tensor, Tensor] | None] = [None] * layers

    def update(
        self, keys: Float[Tensor, "N W 1 D"], values: Float[Tensor, "N W 1 D"], layer: int
    ) -> tuple[Float[Tensor, "N W T D"], Float[Tensor, "N W T D"]]:
        """All keys and values of a layer, with those of one more token."""
        kept = self._kept[layer]
        if kept is None:
            rows, heads, _, size = keys.shape
            room = (rows, heads, self.steps, size)
            kept = self._kept[layer] = keys.new_empty(room), values.new_empty(room)
        at = self.filled[layer]
        kept[0][:, :, at], kept[1][:, :, at] = keys[:, :, 0], values[:, :, 0]
        self.filled[layer] = at + 1
        return kept[0][:, :, : at + 1], kept[1][:, :, : at + 1]

    def get_seq_length(self, layer: int = 0) -> int:
        return self.filled[layer]

    def take(self, index: Int[Tensor, " M"]) -> None:
        """Keeps these rows alone."""
        self._kept = [kept and (kept[0][index], kept[1][index]) for kept in self._kept]
