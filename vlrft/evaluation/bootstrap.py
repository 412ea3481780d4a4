"""Bootstrap confidence intervals of an evaluation's metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isclose

import numpy as np
from numpy.typing import NDArray

from vlrft.schema import DataError

RESAMPLES = 1000
LEVEL = 0.95
SEED = 0  # fixed, so that two reports on the same records are equal

Interval = tuple[float, float]


def bootstrap(
    values: Sequence[float], aggregate: Callable[[Sequence[int]], float] | None = None
) -> Interval:
    """The 95 % percentile interval of the mean over resampled items (Efron 1979). `aggregate`: computes another statistic
    from the indices of the items; resamples of which it is NaN or infinite, such as a ratio without a denominator, are left
    out. Raises DataError where it is of all of them."""
    data = np.asarray(values, dtype=np.float64)
    resamples = draw_resamples(len(data))
    if aggregate is None:
        statistics = np.array([data[indices].mean() for indices in resamples])
    else:
        statistics = np.array([aggregate(indices.tolist()) for indices in resamples])
    return _percentiles(statistics)


def draw_resamples(items: int) -> Iterator[NDArray[np.int64]]:
    """The indices of each resample; they are the same for equal numbers of items."""
    generator = np.random.default_rng(SEED)
    for _ in range(RESAMPLES):
        yield generator.integers(0, items, size=items)


def paired_gain(before: Sequence[float], after: Sequence[float]) -> tuple[float, Interval]:
    """The mean of after − before over the same items in the same order, and its 95 % interval."""
    differences = [b - a for a, b in zip(before, after, strict=True)]
    return float(np.mean(differences)), bootstrap(differences)


def is_mean(values: Sequence[float], score: float) -> bool:
    """Whether a metric with this score is the mean of these values of its items. Of others, such as a ratio of sums, the values' mean
    differences are no gain."""
    return isclose(float(np.mean(values)), score, abs_tol=1e-9)


def _percentiles(statistics: NDArray[np.float64]) -> Interval:
    tail = (1 - LEVEL) / 2
    finite = statistics[np.isfinite(statistics)]
    if not len(finite):
        raise DataError("no resample of its items has a finite value")
    low, high = np.quantile(finite, [tail, 1 - tail])
    return float(low), float(high)
