"""Metrics of an update: accumulated over micro-batches and optimiser steps, then over all ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

import torch
from torch import Tensor

from vlrft.distributed.ranks import ALONE, Ranks

T = TypeVar("T")


class UpdateMetrics:
    """Accumulates sums of losses, means over optimiser steps, and statistics over action tokens."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {"loss": 0.0}
        self._values: dict[str, list[float]] = defaultdict(list)
        self._tokens: dict[str, list[Tensor]] = defaultdict(list)

    def add_to_sum(self, name: str, value: float) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + value

    def add_values(self, values: Mapping[str, float]) -> None:
        """Adds values whose mean is reported."""
        for name, value in values.items():
            self._values[name].append(value)

    def add_tokens(self, mask: Tensor, tensors: Mapping[str, Tensor]) -> None:
        """Adds values [B T] of tokens; their mean over the mask is reported, for ratios also the range."""
        for name, tensor in tensors.items():
            self._tokens[name].append(tensor.detach()[mask].float().cpu())

    def summary(self, ranks: Ranks = ALONE) -> dict[str, float]:
        """The metrics of all ranks together."""
        all_metrics = [metrics for rank_metrics in ranks.gather([self]) for metrics in rank_metrics]
        out = {name: sum(m._sums.get(name, 0.0) for m in all_metrics) for name in self._sums}
        values = _concatenate(m._values for m in all_metrics)
        out |= {name: sum(v) / len(v) for name, v in values.items()}
        for name, parts in _concatenate(m._tokens for m in all_metrics).items():
            tokens = torch.cat(parts)
            if not len(tokens):
                continue
            if name in ("ratio", "sampler_gap"):
                out[f"{name}/min"] = float(tokens.min())
                out[f"{name}/mean"] = float(tokens.mean())
                out[f"{name}/max"] = float(tokens.max())
            else:
                out[name] = float(tokens.mean())
        return out


def _concatenate(parts: Iterable[Mapping[str, list[T]]]) -> dict[str, list[T]]:
    """The lists of all parts by name, concatenated."""
    lists: dict[str, list[T]] = {}
    for part in parts:
        for name, values in part.items():
            lists.setdefault(name, []).extend(values)
    return lists
