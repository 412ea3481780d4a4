"""Bytes of the tensors that torch's operators allocate."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode


class Tensors(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Bytes of the storages that operators allocated under this mode: current and maximum.

    FSDP2 frees and allocates gathered weights by `resize_` of their storage, which is no operator, so that is counted too.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.current = self.peak = 0
        self.storages: dict[int, weakref.ref[Any]] = {}
        self.sizes: dict[int, int] = {}

    def __enter__(self) -> Tensors:
        self._resize = torch.UntypedStorage.resize_
        torch.UntypedStorage.resize_ = self._counted_resize()  # type: ignore[method-assign]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        torch.UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor) and not tensor.is_meta:
                shard = tensor.to_local() if isinstance(tensor, DTensor) else tensor
                self._add(shard.untyped_storage())
        return result

    def _counted_resize(self) -> Any:
        def resize(storage: Any, size: int) -> Any:
            result = self._resize(storage, size)
            self._add(storage)
            self._change(id(storage), size)
            return result

        return resize

    def _add(self, storage: Any) -> None:
        key = id(storage)
        if key in self.storages and self.storages[key]() is storage:
            return
        self.storages[key] = weakref.ref(storage)
        weakref.finalize(storage, self._remove, key)
        self._change(key, storage.nbytes())

    def _change(self, key: int, size: int) -> None:
        self.current += size - self.sizes.get(key, 0)
        self.sizes[key] = size
        self.peak = max(self.peak, self.current)

    def _remove(self, key: int) -> None:
        del self.storages[key]
        self.current -= self.sizes.pop(key)
