"""Bootstrap intervals: how sure a figure of an evaluation is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
LEVEL = 0.95
SEED = 0  # a report made twice from the same records says the same

Interval = tuple[float, float]


def bootstrap(
    values: Sequence[float], aggregate: Callable[[Sequence[float]], float] | None = None
) -> Interval:
    """95 % percentile interval of the mean (or of `aggregate`) over resampled records (Efron 1979)."""
    data = np.asarray(values, dtype=np.float64)
    generator = np.random.default_rng(SEED)
    index = generator.integers(0, len(data), size=(RESAMPLES, len(data)))
    if aggregate is None:
        figures = data[index].mean(axis=1)
    else:
        figures = np.array([aggregate(data[row].tolist()) for row in index])
    return _percentiles(figures)


def paired(before: Sequence[float], after: Sequence[float]) -> tuple[float, Interval]:
    """Mean of after − before over the same records in the same order, and its 95 % interval."""
    differences = [b - a for a, b in zip(before, after, strict=True)]
    return float(np.mean(differences)), bootstrap(differences)


def _percentiles(figures: NDArray[np.float64]) -> Interval:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(figures, [tail, 1 - tail])
    return float(low), float(high)
