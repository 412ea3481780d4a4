"""Decoding with a KV cache that keeps each prompt once: all its completions attend to the same copy.

A row attends to its prompt (P keys, shared) and to its completion (T keys). The two softmaxes are joined exactly:
o = σ(l_p − l_c) o_p + σ(l_c − l_p) o_c, with l the log-sum-exp of a part's scores and o its output. Memory is
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

ATTENTION = "vlrft_shared_prefix"  # the name under which transformers knows the attention function


@dataclass(frozen=True, kw_only=True)
class PromptCache:
    """Keys and values of the prompts. Axes: B prompts, P positions, W key heads, D their width, N rows, S the most rows
    of one prompt."""

    keys: tuple[Float[Tensor, "B W P D"], ...]  # by layer
    values: tuple[Float[Tensor, "B W P D"], ...]
    bias: Float[Tensor, "B 1 1 P"]  # 0; -inf at padding
    slots: Int[Tensor, " N"]  # place of each row in the flattened [B S]
    width: int  # S

    @staticmethod
    def of(cache: Any, real: Bool[Tensor, "B P"], rows: Int[Tensor, " B"]) -> PromptCache:
        """From the transformers cache of a prefill. `real`: no padding; `rows`: completions of each prompt, at least one."""
        keys = tuple(layer.keys for layer in cache.layers)
        bias = torch.zeros_like(real, dtype=torch.float32).masked_fill(~real, -torch.inf)
        slots, width = _slots(rows)
        return PromptCache(
            keys=keys,
            values=tuple(layer.values for layer in cache.layers),
            bias=bias[:, None, None],
            slots=slots,
            width=width,
        )

    def take(self, index: Int[Tensor, " M"]) -> PromptCache:
        """The cache for only the rows at `index` (ascending); prompts without rows are dropped."""
        rows = torch.bincount(self.slots[index] // self.width, minlength=len(self.bias))  # [B]
        slots, width = _slots(rows[rows > 0])
        if bool((rows > 0).all()):
            return replace(self, slots=slots, width=width)
        kept = rows.nonzero()[:, 0]
        return PromptCache(
            keys=tuple(k[kept] for k in self.keys),
            values=tuple(v[kept] for v in self.values),
            bias=self.bias[kept],
            slots=slots,
            width=width,
        )

    def attend(
        self, layer: int, query: Float[Tensor, "N W R D"]
    ) -> tuple[Float[Tensor, "N W R D"], Float[Tensor, "N W R 1"]]:
        """Output and log-sum-exp of scaled queries, R of them for each key head."""
        prompts, heads, _, size = self.keys[layer].shape
        shared = query.shape[2]
        spread = query.new_zeros(prompts * self.width, heads, shared, size)
        spread = spread.index_copy(0, self.slots, query)
        spread = spread.view(prompts, self.width, heads, shared, size).transpose(1, 2)
        output, total = _attend(
            spread.flatten(2, 3), self.keys[layer], self.values[layer], self.bias
        )
        return self._rows(output, shared), self._rows(total, shared)

    def _rows(self, grouped: Float[Tensor, "B W SR D"], shared: int) -> Float[Tensor, "N W R D"]:
        prompts, heads, _, size = grouped.shape
        rows = grouped.view(prompts, heads, self.width, shared, size).transpose(1, 2)
        return rows.reshape(prompts * self.width, heads, shared, size)[self.slots]


def _slots(rows: Int[Tensor, " B"]) -> tuple[Int[Tensor, " N"], int]:
    """`slots` and `width`, from the number of rows of each prompt."""
    width = int(rows.max())
    prompt = torch.arange(len(rows), device=rows.device).repeat_interleave(rows)
    first = (rows.cumsum(0) - rows)[prompt]
    return prompt * width + torch.arange(len(prompt), device=rows.device) - first, width


def _attend(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """softmax(q·k + bias) v and the log-sum-exp of the scores, both computed in float32 at least."""
    scores = _score(query, keys)
    if bias is not None:
        scores = scores + bias
    total = scores.logsumexp(-1, keepdim=True)
    return (scores - total).exp().to(values.dtype) @ values, total


def _score(query: Tensor, keys: Tensor) -> Tensor:
    """q·k in float32 at least. Released Qwen2 models have scores of some hundreds, which bfloat16 would round by about 1."""
    exact = torch.promote_types(query.dtype, torch.float32)
    if query.is_cuda and exact != query.dtype:  # accumulated in float32 without a copy of the keys
        flat = query.flatten(0, 1), keys.flatten(0, 1).mT
        return torch.bmm(*flat, out_dtype=exact).view(*query.shape[:-1], -1)
    return query.to(exact) @ keys.to(exact).mT


def _shared_prefix_attention(
    module: Any,
    query: Float[Tensor, "N H 1 D"],
    key: Float[Tensor, "N W T D"],
    value: Float[Tensor, "N W T D"],
    attention_mask: object,
    *,
    scaling: float,
    prompts: PromptCache,
    **options: Any,
) -> tuple[Float[Tensor, "N 1 H D"], None]:
    """An attention function for transformers: one new token for each row, and no padding among the completions' keys."""
    for name in ("softcap", "s_aux", "position_bias"):
        if options.get(name) is not None:
            raise DataError(f"this model's attention has {name}, which vlrft cannot sample with")
    rows, heads, _, size = query.shape
    grouped = (query * scaling).view(rows, key.shape[1], -1, size)
    prompt, prompt_total = prompts.attend(module.layer_idx, grouped)
    completion, completion_total = _attend(grouped, key, value)
    share = (prompt_total - completion_total).sigmoid().to(completion.dtype)
    return torch.lerp(completion, prompt, share).reshape(rows, 1, heads, size), None


def decode(
    backbone: Backbone,
    embeds: Float[Tensor, "N 1 H"],
    positions: Int[Tensor, "A N 1"],
    completions: CompletionCache,
    prompts: PromptCache,
) -> Float[Tensor, "N 1 H"]:
    """Hidden states of one new token for each row; its keys and values are added to `completions`."""
    _register()
    with attending(backbone.decoder.config, ATTENTION):
        return backbone.call_decoder(
            embeds,
            positions,
            attention_mask=prompts.bias,
            past_key_values=completions,
            prompts=prompts,
        )


@cache
def _register() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _shared_prefix_attention)


class CompletionCache:
    """Keys and values of the completions, filled in place; has the methods of a transformers cache that a decoder calls."""

    def __init__(self, layers: int, steps: int) -> None:
        """Room for `steps` tokens in each row, allocated when a layer is first used."""
        self.steps = steps
        self.lengths = [0] * layers
        self._tensors: list[tuple[Tensor, Tensor] | None] = [None] * layers

    def update(
        self, keys: Float[Tensor, "N W 1 D"], values: Float[Tensor, "N W 1 D"], layer: int
    ) -> tuple[Float[Tensor, "N W T D"], Float[Tensor, "N W T D"]]:
        """Adds one token; returns all keys and values of the layer."""
        tensors = self._tensors[layer]
        if tensors is None:
            rows, heads, _, size = keys.shape
            shape = (rows, heads, self.steps, size)
            tensors = self._tensors[layer] = keys.new_empty(shape), values.new_empty(shape)
        at = self.lengths[layer]
        tensors[0][:, :, at], tensors[1][:, :, at] = keys[:, :, 0], values[:, :, 0]
        self.lengths[layer] = at + 1
        return tensors[0][:, :, : at + 1], tensors[1][:, :, : at + 1]

    def get_seq_length(self, layer: int = 0) -> int:
        return self.lengths[layer]

    def take(self, index: Int[Tensor, " M"]) -> None:
        """Keeps only the rows at `index`."""
        self._tensors = [pair and (pair[0][index], pair[1][index]) for pair in self._tensors]
