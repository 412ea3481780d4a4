"""Keys and values of prompts, each kept once for all its completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.policy.attention.one_token import Part, prepare_keys


@dataclass(kw_only=True)
class PromptCache:
    """Axes: B prompts, P positions, padded on the right, W key heads, D their width."""

    keys: list[Float[Tensor, "B P W D"]]  # by layer
    values: list[Float[Tensor, "B P W D"]]
    lengths: tuple[int, ...]  # [B] tokens of each prompt

    @staticmethod
    def of(cache: Any, lengths: Sequence[int]) -> PromptCache:
        """From the transformers cache of a prefill, which is emptied."""
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for layer in cache.layers:
            keys.append(layer.keys.transpose(1, 2).contiguous())
            values.append(layer.values.transpose(1, 2).contiguous())
            layer.keys = layer.values = None
        return PromptCache(keys=keys, values=values, lengths=tuple(lengths))

    @property
    def longest(self) -> int:
        return max(self.lengths)

    def prepare(self, queries: int) -> Part:
        """The attention of `queries` queries to each prompt."""
        first = self.keys[0]
        equal = min(self.lengths) == first.shape[1]
        lengths = None if equal else torch.tensor(self.lengths, device=first.device)
        return prepare_keys(first, lengths, keys=first.shape[1], queries=queries)

    def select(self, index: Sequence[int]) -> None:
        """Keeps only the prompts at `index`, ascending. A layer at a time, so that one layer's copy exists at once."""
        if len(index) == len(self.lengths):
            return
        self.lengths = tuple(self.lengths[k] for k in index)
        at = torch.tensor(index, device=self.keys[0].device)
        for tensors in (self.keys, self.values):
            for layer, tensor in enumerate(tensors):
                tensors[layer] = tensor[at, : self.longest]

    def append(self, others: PromptCache) -> None:
        """Adds prompts, whose tensors are emptied."""
        longest = max(self.longest, others.longest)
        self.lengths += others.lengths
        for tensors, more in ((self.keys, others.keys), (self.values, others.values)):
            for layer, (tensor, new) in enumerate(zip(tensors, more, strict=True)):
                tensors[layer] = torch.cat([_pad(tensor, longest), _pad(new, longest)])
                more[layer] = new[:0]


def _pad(tensor: Float[Tensor, "B P W D"], longest: int) -> Float[Tensor, "B L W D"]:
    missing = longest - tensor.shape[1]
    return torch.nn.functional.pad(tensor, (0, 0, 0, 0, 0, missing)) if missing else tensor


def row_index(counts: Sequence[int], device: torch.device) -> Int[Tensor, " N"]:
    """The prompt of each row, from the number of rows of each prompt."""
    return torch.arange(len(counts)).repeat_interleave(torch.tensor(counts)).to(device)
