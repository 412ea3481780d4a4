"""Counts of the operators that a block dispatches."""

from __future__ import annotations

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Counts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context that counts `scores`, the q·k products of attention kernels, forward and backward, and `largest`, the
    elements of the largest tensor that any operator returns; `shapes` has every returned shape."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.scores = 0
        self.largest = 0
        self.shapes: set[tuple[int, ...]] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if "flash_attention" in func.name():
            query, key = args[1:3] if "backward" in func.name() else args[:2]
            self.scores += query.shape[:3].numel() * key.shape[2]
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, list | tuple) else [result]:
            if isinstance(tensor, Tensor):
                self.largest = max(self.largest, tensor.numel())
                self.shapes.add(tuple(tensor.shape))
        return result
