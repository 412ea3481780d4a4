"""Keys and values of prompts, each kept once for all its completions, and the states of recurrent layers after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.policy.attention.one_token import Part, prepare_keys
from vlrft.policy.forked.states import LayerStates


@dataclass(kw_only=True)
class PromptCache:
    """Axes: B prompts, P positions, padded on the right, W key heads, D their width. By the index of a layer."""

    keys: dict[int, Float[Tensor, "B P W D"]]  # of layers that attend
    values: dict[int, Float[Tensor, "B P W D"]]
    lengths: tuple[int, ...]  # [B] tokens of each prompt
    states: dict[int, LayerStates] = field(default_factory=dict[int, LayerStates])
    """Of recurrent layers, a row for each prompt. Rows that are sampled take copies along, and these are dropped."""

    @staticmethod
    def of(cache: Any, lengths: Sequence[int]) -> PromptCache:
        """From the transformers cache of a prefill, which is emptied."""
        made = PromptCache(keys={}, values={}, lengths=tuple(lengths))
        for index, layer in enumerate(cache.layers):
            if isinstance(layer, LayerStates):
                made.states[index] = layer
                continue
            made.keys[index] = layer.keys.transpose(1, 2).contiguous()
            made.values[index] = layer.values.transpose(1, 2).contiguous()
            layer.keys = layer.values = None
        return made

    @property
    def first(self) -> Float[Tensor, "B P W D"]:
        """The keys of the first layer that attends."""
        return next(iter(self.keys.values()))

    @property
    def layers(self) -> int:
        return len(self.keys) + len(self.states)

    def fork_states(self, index: Int[Tensor, " N"]) -> dict[int, LayerStates]:
        """The states of the recurrent layers for rows of the prompts at `index`; they are kept no longer here."""
        states, self.states = self.states, {}
        return {layer: states.pop(layer).select(index) for layer in list(states)}

    @property
    def longest(self) -> int:
        return max(self.lengths)

    def prepare(self, queries: int) -> Part:
        """The attention of `queries` queries to each prompt."""
        first = self.first
        equal = min(self.lengths) == first.shape[1]
        lengths = None if equal else torch.tensor(self.lengths, device=first.device)
        return prepare_keys(first, lengths, keys=first.shape[1], queries=queries)

    def select(self, index: Sequence[int]) -> None:
        """Keeps only the prompts at `index`, ascending. A layer at a time, so that one layer's copy exists at once."""
        if len(index) == len(self.lengths):
            return
        self.lengths = tuple(self.lengths[k] for k in index)
        at = torch.tensor(index, device=self.first.device)
        for tensors in (self.keys, self.values):
            for layer, tensor in tensors.items():
                tensors[layer] = tensor[at, : self.longest]

    def read(
        self, layer: int, index: Int[Tensor, " M"]
    ) -> tuple[Float[Tensor, "M W D"], Float[Tensor, "M W D"]]:
        """Copies of a layer's keys and values at positions of the flattened prompts [BP]."""
        return self.keys[layer].flatten(0, 1)[index], self.values[layer].flatten(0, 1)[index]

    def drop(self, layer: int) -> None:
        """Frees a layer's keys and values."""
        del self.keys[layer], self.values[layer]

    def append(self, others: PromptCache) -> None:
        """Adds prompts, whose tensors are emptied."""
        longest = max(self.longest, others.longest)
        self.lengths += others.lengths
        for tensors, more in ((self.keys, others.keys), (self.values, others.values)):
            for layer, tensor in tensors.items():
                new = more[layer]
                tensors[layer] = torch.cat([_pad(tensor, longest), _pad(new, longest)])
                more[layer] = new[:0]


def _pad(tensor: Float[Tensor, "B P W D"], longest: int) -> Float[Tensor, "B L W D"]:
    missing = longest - tensor.shape[1]
    return torch.nn.functional.pad(tensor, (0, 0, 0, 0, 0, missing)) if missing else tensor


def row_index(counts: Sequence[int], device: torch.device) -> Int[Tensor, " N"]:
    """The prompt of each row, from the number of rows of each prompt."""
    return torch.arange(len(counts)).repeat_interleave(torch.tensor(counts)).to(device)
