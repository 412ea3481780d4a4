"""Keys and values of completions, in rooms of a fixed size."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


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

    def select(self, index: Int[Tensor, " M"], more: int, used: int) -> None:
        """Keeps only the rows at `index`, with their first `used` tokens, and makes room for `more` rows after them. A layer at
        a time, so that one layer's copy exists at once."""
        self.rows = len(index) + more
        for layer, pair in enumerate(self._tensors):
            if pair is not None:
                keys, values = pair
                self._tensors[layer] = pair = None
                keys = self._move(keys, index, used)
                values = self._move(values, index, used)
                self._tensors[layer] = keys, values

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
