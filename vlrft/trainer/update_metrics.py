"""What an update reports: gathered from micro-batch to micro-batch, then over all ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

import torch
from torch import Tensor

from vlrft.distributed.ranks import ALONE, Ranks

T = TypeVar("T")


class UpdateMetrics:
    """Gathers what a step reports: sums of the losses, means over optimiser steps, statistics over action tokens."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {"loss": 0.0}
        self._values: dict[str, list[float]] = defaultdict(list)
        self._tokens: dict[str, list[Tensor]] = defaultdict(list)

    def add(self, name: str, value: float) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + value

    def put(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._values[name].append(value)

    def watch(self, mask: Tensor, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            self._tokens[name].append(tensor.detach()[mask].float().cpu())

    def summary(self, ranks: Ranks = ALONE) -> dict[str, float]:
        """The figures of all ranks together."""
        everyone = [own for part in ranks.gather([self]) for own in part]
        out = {name: sum(own._sums.get(name, 0.0) for own in everyone) for name in self._sums}
        out |= {name: sum(v) / len(v) for name, v in _joined(o._values for o in everyone).items()}
        for name, parts in _joined(own._tokens for own in everyone).items():
            values = torch.cat(parts)
            if not len(values):
                continue
            if name in ("ratio", "sampler_gap"):
                out[f"{name}/min"] = float(values.min())
                out[f"{name}/mean"] = float(values.mean())
                out[f"{name}/max"] = float(values.max())
            else:
                out[name] = float(values.mean())
        return out


def _joined(parts: Iterable[Mapping[str, list[T]]]) -> dict[str, list[T]]:
    """The lists of all parts behind one another, by name."""
    found: dict[str, list[T]] = {}
    for part in parts:
        for name, values in part.items():
            found.setdefault(name, []).extend(values)
    return found
