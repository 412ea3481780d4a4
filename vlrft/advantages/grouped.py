"""Statistics of values [R] over groups: `key[i]` is the label 0 … P−1 of the group of entry i."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MIN_SPREAD = 1e-6  # rewards that differ by less are equal: float32 rounding is smaller
EPSILON = 1e-6  # added to a standard deviation before the division


def valid_groups(values: Floats, key: Ints, groups: int) -> Bools:
    """Which of the groups 0 … groups−1 have values that differ [P]."""
    high = np.full(groups, -np.inf)
    low = np.full(groups, np.inf)
    np.maximum.at(high, key, values)
    np.minimum.at(low, key, values)
    spread = np.zeros(groups)
    np.subtract(high, low, out=spread, where=np.isfinite(high))
    return spread > MIN_SPREAD


def group_differs(values: Floats, key: Ints) -> Bools:
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


def centre(values: Floats, key: Ints) -> Floats:
    """v_i − μ_g; exactly 0 in a group of equal values"""
    return np.where(group_differs(values, key), values - group_mean(values, key), 0.0)


def divide_by_group_std(values: Floats, key: Ints, least: float = 0.0) -> Floats:
    """v_i / (max(σ_g, least) + 1e-6), σ_g = √(Σ_g v² / (n_g − 1)): the unbiased std of values that are already centred by the
    key"""
    squares = np.bincount(key, weights=values**2)
    std = np.sqrt(squares / np.maximum(np.bincount(key) - 1, 1))
    return values / (np.maximum(std, least)[key] + EPSILON)


def divide_by_step_std(values: Floats) -> Floats:
    """v_i / (σ + 1e-6), σ the unbiased std of all values; equal values stay as they are"""
    if len(values) < 2 or float(np.ptp(values)) <= MIN_SPREAD:
        return values
    return values / (float(values.std(ddof=1)) + EPSILON)


class Keyed(Protocol):
    """A step that compares the values of groups."""

    @property
    def key(self) -> str: ...


def least_group(*keys: str) -> int:
    """The smallest size of a sample's group with which values can be compared over the groups of these keys."""
    return 2 if "sample" in keys else 1


def _least_group_of(step: Keyed) -> int:
    return least_group(step.key)


min_group_of_key = property(_least_group_of)
"""The attribute `min_group` of a step with one `key`."""


def dense_labels(labels: list[object]) -> Ints:
    """The labels [R], any hashable values, as 0 … P−1 in order of first appearance."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)
