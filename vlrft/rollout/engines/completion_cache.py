"""Keys and values of completions, in rooms of a fixed size, and the states of recurrent layers."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.policy.forked.states import LayerStates


class CompletionCache:
    """Filled in place; has the methods of a transformers cache that a decoder calls.

    Axes: N rows, T tokens, C room, W key heads, D their width.
    """

    def __init__(self, layers: int, rows: int, room: int) -> None:
        """`room`: tokens of the longest completion. Allocated when a layer is first used."""
        self.rows = rows
        self.room = room
        self.at: int | Int[Tensor, " N"] = (
            0  # place of the token that is added, the same or each row's own
        )
        self.states: dict[int, LayerStates] = {}
        """Of recurrent layers, by layer, a row for each completion."""
        self._tensors: list[tuple[Tensor, Tensor] | None] = [None] * layers
        self._row = torch.empty(0)

    def update(
        self, keys: Float[Tensor, "N W 1 D"], values: Float[Tensor, "N W 1 D"], layer: int
    ) -> tuple[Float[Tensor, "N C W D"], Float[Tensor, "N C W D"]]:
        """Adds one token; returns the layer's whole room."""
        pair = self._tensors[layer]
        if pair is None:
            pair = self._tensors[layer] = self._allocate(keys), self._allocate(values)
        for tensor, new in zip(pair, (keys, values), strict=True):
            if isinstance(self.at, int):
                tensor[:, self.at] = new[:, :, 0]
            else:
                tensor.index_put_((self._rows(tensor), self.at), new[:, :, 0])
        return pair

    def get_seq_length(self, layer: int = 0) -> int:
        return 0 if not isinstance(self.at, int) else self.at

    # --- of recurrent layers, whose states each step changes in place ---

    def is_recording_past(self, layer: int) -> bool:
        return False

    def has_previous_state(self, layer: int | None = None, state_idx: int | None = None) -> bool:
        return bool(self.states)

    def get_conv_state(self, layer: int, state_idx: int = 0) -> Tensor | None:
        return self.states[layer].get_conv_state(layer, state_idx)

    def get_recurrent_state(self, layer: int, state_idx: int = 0) -> Tensor | None:
        return self.states[layer].get_recurrent_state(layer, state_idx)

    def update_conv_state(
        self, new: Tensor, layer: int, state_idx: int = 0, **options: Any
    ) -> Tensor:
        state = self.states[layer].conv[state_idx]
        read = torch.cat([state, new], -1)
        state.copy_(read[..., -state.shape[-1] :])
        return read

    def update_recurrent_state(
        self, new: Tensor, layer: int, state_idx: int = 0, **options: Any
    ) -> Tensor:
        return self.states[layer].recurrent[state_idx].copy_(new)

    def append_states(self, others: dict[int, LayerStates]) -> None:
        """Adds those of rows that enter."""
        for layer, more in others.items():
            self.states[layer] = self.states[layer].append(more)

    def select(self, index: Int[Tensor, " M"], more: int, used: int) -> None:
        """Keeps only the rows at `index`, with their first `used` tokens, and makes room for `more` rows after them. A layer at
        a time, so that one layer's copy exists at once."""
        self.rows = len(index) + more
        for layer, states in self.states.items():
            self.states[layer] = states.select(index)
        for layer, pair in enumerate(self._tensors):
            if pair is not None:
                keys, values = pair
                self._tensors[layer] = pair = None
                keys = self._move(keys, index, used)
                values = self._move(values, index, used)
                self._tensors[layer] = keys, values

    def read(
        self, layer: int, index: Int[Tensor, " M"]
    ) -> tuple[Float[Tensor, "M W D"], Float[Tensor, "M W D"]]:
        """Copies of a layer's keys and values at positions of the flattened rooms [NC]."""
        pair = self._tensors[layer]
        assert pair is not None
        keys, values = pair
        return keys.flatten(0, 1)[index], values.flatten(0, 1)[index]

    def drop(self, layer: int) -> None:
        """Frees a layer's keys and values."""
        self._tensors[layer] = None

    def _move(self, tensor: Tensor, index: Tensor, used: int) -> Tensor:
        moved = tensor.new_zeros(self.rows, *tensor.shape[1:])
        moved[: len(index), :used] = tensor[index, :used]
        return moved

    def _allocate(self, like: Tensor) -> Tensor:
        rows, heads, _, size = like.shape
        return like.new_zeros(rows, self.room, heads, size)  # masked values must be finite

    def _rows(self, tensor: Tensor) -> Int[Tensor, " N"]:
        if len(self._row) != self.rows:
            self._row = torch.arange(self.rows, device=tensor.device)
        return self._row
