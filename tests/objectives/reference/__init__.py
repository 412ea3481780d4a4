"""Slow references written from the papers' formulas, a file a family: loops over Python floats, no code shared with the
library."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import torch


@dataclass(frozen=True)
class Case:
    """A step: log-probs [B][T_b] ragged, rewards [B], group label [B]."""

    logprobs: list[list[float]]
    rewards: list[float]
    group: list[int]
    old: list[list[float]]
    ref: list[list[float]]

    def groups(self) -> list[list[int]]:
        return [[b for b, g in enumerate(self.group) if g == k] for k in dict.fromkeys(self.group)]

    def padded(self, rows: Sequence[Sequence[float]], width: int, fill: float) -> torch.Tensor:
        return torch.tensor(
            [[*row, *[fill] * (width - len(row))] for row in rows], dtype=torch.float64
        ).reshape(len(rows), width)


def random_case(
    seed: int,
    sizes: Sequence[int],
    longest: int = 6,
    spread: float = 0.3,
    levels: Sequence[float] = (),
) -> Case:
    """Ragged groups with random rewards, or rewards of these levels; old and reference log-probs near the current ones."""
    g = torch.Generator().manual_seed(seed)

    def uniform() -> float:
        return float(torch.rand((), generator=g, dtype=torch.float64))

    lengths = [1 + int(uniform() * longest) for _ in range(sum(sizes))]
    logprobs = [[-3 * uniform() - 0.01 for _ in range(n)] for n in lengths]

    def near(rows: list[list[float]]) -> list[list[float]]:
        return [[v + spread * (2 * uniform() - 1) for v in row] for row in rows]

    return Case(
        logprobs=logprobs,
        rewards=[
            levels[int(uniform() * len(levels))] if levels else round(uniform(), 2) for _ in lengths
        ],
        group=[k for k, n in enumerate(sizes) for _ in range(n)],
        old=near(logprobs),
        ref=near(logprobs),
    )


def valid(rewards: list[float]) -> bool:
    return max(rewards) - min(rewards) > 1e-6


def centred(rewards: list[float]) -> list[float]:
    return [r - mean(rewards) if valid(rewards) else 0.0 for r in rewards]


def standardised(rewards: list[float]) -> list[float]:
    if not valid(rewards):
        return [0.0] * len(rewards)
    return [(r - mean(rewards)) / (stdev(rewards) + 1e-6) for r in rewards]


def _families(table: str) -> dict[str, Any]:
    """One table from every file of this folder."""
    result: dict[str, Any] = {}
    for module in pkgutil.iter_modules(__path__):
        result |= getattr(importlib.import_module(f"{__name__}.{module.name}"), table, {})
    return result


REFERENCES: dict[str, Callable[[Case], float]] = _families("REFERENCES")
"""Algorithm -> its slow reference."""

FROZEN: dict[str, Callable[[Case, Case], float]] = _families("FROZEN")
"""Algorithm -> the loss at a case with every detached quantity taken at another case, where there is one."""

EXTRAS: dict[str, Callable[[Case], dict[str, Any]]] = _families("EXTRAS")
"""Algorithm -> the additional arguments that it needs; a list has an entry for each row."""
