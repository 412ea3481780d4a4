"""Bootstrap intervals: how sure a figure of an evaluation is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
LEVEL = 0.95
SEED = 0  # a report made twice from the same records says the same

Interval = tuple[float, float]


def bootstrap(
    values: Sequence[float], aggregate: Callable[[Sequence[int]], float] | None = None
) -> Interval:
    """95 % percentile interval of the mean (or of `aggregate` of places) over resampled items (Efron 1979)."""
    data = np.asarray(values, dtype=np.float64)
    draws = resampled(len(data))
    if aggregate is None:
        figures = np.array([data[row].mean() for row in draws])
    else:
        figures = np.array([aggregate(row.tolist()) for row in draws])
    return _percentiles(figures)


def resampled(items: int) -> Iterator[NDArray[np.int64]]:
    """The places that each of the resamples draws, the same for equal numbers of items."""
    generator = np.random.default_rng(SEED)
    for _ in range(RESAMPLES):
        yield generator.integers(0, items, size=items)


def paired(before: Sequence[float], after: Sequence[float]) -> tuple[float, Interval]:
    """Mean of after − before over the same records in the same order, and its 95 % interval."""
    differences = [b - a for a, b in zip(before, after, strict=True)]
    return float(np.mean(differences)), bootstrap(differences)


def _percentiles(figures: NDArray[np.float64]) -> Interval:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(figures, [tail, 1 - tail])
    return float(low), float(high)
