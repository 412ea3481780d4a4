"""Slow references written from the papers' formulas: loops over Python floats, no code shared with the library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

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


def random_case(seed: int, sizes: Sequence[int], longest: int = 6, spread: float = 0.3) -> Case:
    """Ragged groups with random rewards; old and reference log-probs near the current ones."""
    g = torch.Generator().manual_seed(seed)

    def uniform() -> float:
        return float(torch.rand((), generator=g, dtype=torch.float64))

    lengths = [1 + int(uniform() * longest) for _ in range(sum(sizes))]
    logprobs = [[-3 * uniform() - 0.01 for _ in range(n)] for n in lengths]

    def near(rows: list[list[float]]) -> list[list[float]]:
        return [[v + spread * (2 * uniform() - 1) for v in row] for row in rows]

    return Case(
        logprobs=logprobs,
        rewards=[round(uniform(), 2) for _ in lengths],
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


def gpg(case: Case) -> float:
    """α · 1/P Σ_g 1/Σ|o| Σ_i Σ_t −log π A"""
    groups = case.groups()
    kept = [g for g in groups if valid([case.rewards[b] for b in g])]
    if not kept:
        return 0.0
    alpha = len(groups) / len(kept)
    total = 0.0
    for g in groups:
        tokens = sum(len(case.logprobs[b]) for b in g)
        inner = 0.0
        for b, a in zip(g, centred([case.rewards[b] for b in g]), strict=True):
            inner += sum(-lp * a for lp in case.logprobs[b])
        total += inner / tokens if tokens else 0.0
    return alpha * total / len(groups)


def gpg_vl_released(case: Case) -> float:
    groups = case.groups()
    kept = [g for g in groups if valid([case.rewards[b] for b in g])]
    if not kept:
        return 0.0
    total = 0.0
    for g in groups:
        for b, a in zip(g, centred([case.rewards[b] for b in g]), strict=True):
            row = case.logprobs[b]
            total += sum(-lp * a for lp in row) / len(row) if row else 0.0
    return len(groups) / len(kept) * total / len(case.rewards)


def gpg_rs_released(case: Case) -> float:
    total, tokens = 0.0, 0
    for g in case.groups():
        for b, a in zip(g, standardised([case.rewards[b] for b in g]), strict=True):
            total += sum(-lp * a for lp in case.logprobs[b])
            tokens += len(case.logprobs[b])
    return total / tokens if tokens else 0.0


def grpo(case: Case, clip: float = 0.2, beta: float = 0.04) -> float:
    total = 0.0
    for g in case.groups():
        for b, a in zip(g, standardised([case.rewards[b] for b in g]), strict=True):
            row = 0.0
            for lp, old, ref in zip(case.logprobs[b], case.old[b], case.ref[b], strict=True):
                ratio = math.exp(lp - old)
                clipped = min(max(ratio, 1 - clip), 1 + clip)
                k3 = math.exp(ref - lp) - (ref - lp) - 1
                row += -min(ratio * a, clipped * a) + beta * k3
            total += row / len(case.logprobs[b]) if case.logprobs[b] else 0.0
    return total / len(case.rewards)


def sft(case: Case) -> float:
    tokens = sum(map(len, case.logprobs))
    return -sum(map(sum, case.logprobs)) / tokens if tokens else 0.0


REFERENCES = {
    "gpg": gpg,
    "gpg_vl_released": gpg_vl_released,
    "gpg_rs_released": gpg_rs_released,
    "grpo": grpo,
    "sft": sft,
}
