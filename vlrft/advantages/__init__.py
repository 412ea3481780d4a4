"""Groups of rewards -> one advantage a rollout. NumPy only.

Every estimator is a pure function `(rewards [R], group [R]) -> advantages [R]` in float64, R rollouts of the whole
optimiser step. A group is *valid* when its rewards differ by more than 1e-6; every other group gets exactly 0 from a
group estimator, never a rounding residue divided by a standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIN_SPREAD = 1e-6
EPSILON = 1e-6  # keeps a standard deviation off zero


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """A named advantage estimator and the smallest configured group it makes sense for."""

    doc: str
    function: Callable[[Floats, Ints], Floats]
    min_group: int = 2


def valid_groups(rewards: Floats, group: Ints, groups: int) -> NDArray[np.bool_]:
    """Which of the groups 0 … groups−1 have rewards that differ [P]."""
    high = np.full(groups, -np.inf)
    low = np.full(groups, np.inf)
    np.maximum.at(high, group, rewards)
    np.minimum.at(low, group, rewards)
    spread = np.zeros(groups)
    np.subtract(high, low, out=spread, where=np.isfinite(high))
    return spread > MIN_SPREAD


def group_mean(values: Floats, group: Ints) -> Floats:
    """Each entry's group mean [R]."""
    counts = np.bincount(group).clip(min=1)
    means: Floats = (np.bincount(group, weights=values) / counts)[group]
    return means


def centred(rewards: Floats, group: Ints) -> Floats:
    """A_i = r_i − μ_g"""
    valid = valid_groups(rewards, group, int(group.max(initial=-1)) + 1)[group]
    return np.where(valid, rewards - group_mean(rewards, group), 0.0)


def standardised(rewards: Floats, group: Ints) -> Floats:
    """A_i = (r_i − μ_g) / (σ_g + 1e-6), σ unbiased; 0 for a group of one"""
    a = centred(rewards, group)
    counts = np.bincount(group)
    std = np.sqrt(np.bincount(group, weights=a**2) / np.maximum(counts - 1, 1))
    return a / (std[group] + EPSILON)


def batch_standardised(rewards: Floats, group: Ints) -> Floats:
    """A_i = (r_i − μ_g) / (σ + 1e-6), σ the unbiased std of the step's centred rewards"""
    a = centred(rewards, group)
    std = float(a.std(ddof=1)) if len(a) > 1 else 0.0
    return a / (std + EPSILON)


def one(rewards: Floats, group: Ints) -> Floats:
    """A_i = 1: the answers are given, all are to be learned"""
    return np.ones_like(rewards)


ESTIMATORS = {
    "centred": Estimator(doc="r − group mean", function=centred),
    "standardised": Estimator(doc="(r − group mean) / group std", function=standardised),
    "batch_standardised": Estimator(
        doc="(r − group mean) / std over the step", function=batch_standardised
    ),
    "one": Estimator(doc="1 for every answer", function=one, min_group=1),
}
