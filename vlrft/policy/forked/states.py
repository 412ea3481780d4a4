"""States of recurrent layers after a row: the last inputs of a convolution, and the sum of what was read.

Axes: N rows.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn


class LayerStates:
    """The states of one layer; has the methods of a transformers cache that the layer calls.

    transformers' own cache copies new states into the memory of the old ones, which autograd refuses the second time; here
    they are assigned, and gradients flow through them.
    """

    def __init__(
        self, conv: dict[int, Tensor] | None = None, recurrent: dict[int, Tensor] | None = None
    ) -> None:
        """Both by number: a layer may have several."""
        self.conv = conv or {}
        self.recurrent = recurrent or {}

    def get_conv_state(self, layer: int, state_idx: int = 0) -> Tensor | None:
        return self.conv.get(state_idx)

    def get_recurrent_state(self, layer: int, state_idx: int = 0) -> Tensor | None:
        return self.recurrent.get(state_idx)

    def has_previous_state(self, layer: int | None = None, state_idx: int | None = None) -> bool:
        return bool(self.conv)

    def is_recording_past(self, layer: int) -> bool:
        return False

    def update_conv_state(
        self,
        new: Tensor,
        layer: int,
        state_idx: int = 0,
        conv_kernel_size: int | None = None,
        **options: Any,
    ) -> Tensor:
        """The inputs [N, channels, T] of a convolution, after those that its first outputs read as well."""
        kernel, before = conv_kernel_size or new.shape[-1], self.conv.get(state_idx)
        if before is None:
            read = nn.functional.pad(new, (max(kernel - new.shape[-1], 0), 0))
        else:
            read = torch.cat([before, new], -1)
        self.conv[state_idx] = read[..., -kernel:]
        return read

    def update_recurrent_state(
        self, new: Tensor, layer: int, state_idx: int = 0, **options: Any
    ) -> Tensor:
        self.recurrent[state_idx] = new
        return new

    def select(self, index: Int[Tensor, " M"]) -> LayerStates:
        """Copies of the rows at `index`."""
        return LayerStates(
            {k: state[index] for k, state in self.conv.items()},
            {k: state[index] for k, state in self.recurrent.items()},
        )

    def append(self, others: LayerStates) -> LayerStates:
        return LayerStates(
            {k: torch.cat([state, others.conv[k]]) for k, state in self.conv.items()},
            {k: torch.cat([state, others.recurrent[k]]) for k, state in self.recurrent.items()},
        )
