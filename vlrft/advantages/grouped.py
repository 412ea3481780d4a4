"""Statistics of numbers by a key: `key[i]` is the dense label 0 … P−1 of entry i."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MIN_SPREAD = 1e-6  # rewards that differ by less are a tie: rounding of a float32 stays below it
EPSILON = 1e-6  # keeps a standard deviation off zero


def valid_groups(values: Floats, key: Ints, groups: int) -> Bools:
    """Which of the groups 0 … groups−1 have values that differ [P]."""
    high = np.full(groups, -np.inf)
    low = np.full(groups, np.inf)
    np.maximum.at(high, key, values)
    np.minimum.at(low, key, values)
    spread = np.zeros(groups)
    np.subtract(high, low, out=spread, where=np.isfinite(high))
    return spread > MIN_SPREAD


def differs(values: Floats, key: Ints) -> Bools:
    """Whether the values of each entry's group differ [R]."""
    return valid_groups(values, key, int(key.max(initial=-1)) + 1)[key]


def group_sizes(key: Ints) -> Ints:
    """The size of each entry's group [R]."""
    sizes: Ints = np.bincount(key)[key]
    return sizes


def group_mean(values: Floats, key: Ints) -> Floats:
    """Each entry's group mean [R]."""
    counts = np.bincount(key).clip(min=1)
    means: Floats = (np.bincount(key, weights=values) / counts)[key]
    return means


def centred(values: Floats, key: Ints) -> Floats:
    """v_i − μ_g; exactly 0 in a group whose values do not differ"""
    return np.where(differs(values, key), values - group_mean(values, key), 0.0)


def over_group_std(values: Floats, key: Ints) -> Floats:
    """v_i / (σ_g + 1e-6), σ_g = √(Σ_g v² / (n_g − 1)): the unbiased std of values that are centred on the key"""
    squares = np.bincount(key, weights=values**2)
    std = np.sqrt(squares / np.maximum(np.bincount(key) - 1, 1))
    return values / (std[key] + EPSILON)


def over_step_std(values: Floats) -> Floats:
    """v_i / (σ + 1e-6), σ the unbiased std of them all; values that do not differ stay as they are"""
    if len(values) < 2 or float(np.ptp(values)) <= MIN_SPREAD:
        return values
    return values / (float(values.std(ddof=1)) + EPSILON)


def dense(labels: list[object]) -> Ints:
    """Any hashable labels as 0 … P−1 in order of first appearance."""
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(label, len(seen)) for label in labels], dtype=np.int64)
