"""Counts the operators that run during some work, and how often the host reads a value of the device.

On a GPU every such operator launches at least one kernel, so on a CPU their number is a proxy for kernels: an operator may
launch several of them, and a device may have a fused operator where the CPU has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

# Operators that compute nothing: they make views, or memory that nobody has written yet.
WITHOUT_KERNEL = frozenset(
    (
        *(
            "_reshape_alias",
            "_unsafe_view",
            "alias",
            "detach",
            "is_same_size",
            "lift_fresh",
            "view_as_real",
        ),
        *(
            "empty",
            "empty_like",
            "empty_strided",
            "new_empty",
            "new_empty_strided",
            "resize_",
            "set_",
        ),
    )
)
# Operators whose result has a size or a value that the host must wait for.
SYNCHRONISING = frozenset(
    (
        *("_local_scalar_dense", "equal", "is_nonzero"),
        *("_unique2", "masked_select", "nonzero", "unique_consecutive"),
    )
)
READS = frozenset(("cpu", "numpy", "tolist"))  # methods of Tensor that copy values to the host
ON_DEVICE = "_vlrft_on_device"  # attribute of a tensor that a GPU would hold


@dataclass
class OperatorCounts:
    """Operators by name, and host syncs by the name of the operator or method that waits."""

    operators: Counter[str] = field(default_factory=Counter[str])
    syncs: Counter[str] = field(default_factory=Counter[str])
    _making: int = 0  # calls under way that name a device


@contextmanager
def count_operators() -> Iterator[OperatorCounts]:
    """A context that counts, backward passes included. Without a GPU it follows which tensors one would hold: parameters,
    tensors that are moved or made with an explicit device, and all that is computed from them. Operators on others,
    such as the layout of a batch that is computed on the host, are not counted."""
    counts = OperatorCounts()
    with _Calls(counts), _Operators(counts):
        yield counts


class _Operators(TorchDispatchMode):
    """Sees each operator that is dispatched."""

    def __init__(self, counts: OperatorCounts) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = counts

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:  # fmt: skip
        result = func(*args, **(kwargs or {}))
        inputs = list(_tensors((args, kwargs or {})))
        # A tensor that the autograd engine saved and unpacked has lost its attribute; float tensors are the device's.
        on_device = any(_is_on_device(t) or t.is_floating_point() for t in inputs)
        on_device |= self.counts._making > 0 and not inputs
        name = func.__name__.split(".")[0]
        if on_device:
            _mark(result)
            if not func.is_view and name not in WITHOUT_KERNEL:
                self.counts.operators[name] += 1
            if name in SYNCHRONISING:
                self.counts.syncs[name] += 1
            elif name.startswith("index") and _has_mask(args):
                self.counts.syncs[f"{name} by a mask"] += 1
            elif name == "repeat_interleave" and not (kwargs or {}).get("output_size"):
                self.counts.syncs[name] += 1
        return result


class _Calls(TorchFunctionMode):
    """Sees calls of the Python API: those that read values without an operator on a CPU, and those that name a device."""

    def __init__(self, counts: OperatorCounts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:  # fmt: skip
        name = getattr(func, "__name__", "")
        on_device = any(map(_is_on_device, _tensors((args, kwargs or {}))))
        names_device = (kwargs or {}).get("device") is not None or _moves(name, args)
        self.counts._making += names_device
        try:
            result = func(*args, **(kwargs or {}))
        finally:
            self.counts._making -= names_device
        if name in READS and on_device:
            self.counts.syncs[name] += 1
        elif on_device or names_device:
            _mark(result)
        return result


def _moves(name: str, args: tuple[Any, ...]) -> bool:
    return name == "to" and any(isinstance(a, str | torch.device) for a in args[1:])


def _has_mask(args: tuple[Any, ...]) -> bool:
    indices = args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else ()
    return any(isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in indices)


def _is_on_device(tensor: Tensor) -> bool:
    return tensor.is_cuda or isinstance(tensor, nn.Parameter) or hasattr(tensor, ON_DEVICE)


def _mark(result: Any) -> None:
    for tensor in _tensors(result):
        setattr(tensor, ON_DEVICE, True)


def _tensors(value: Any) -> Iterable[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
