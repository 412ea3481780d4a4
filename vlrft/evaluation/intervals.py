"""95 % confidence intervals of an evaluation's metrics: Wilson's for shares of successes, the bootstrap for all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vlrft.evaluation.bootstrap import LEVEL, Interval, bootstrap

WILSON, BOOTSTRAP = "wilson", "bootstrap"


def metric_interval(
    values: Sequence[float],
    aggregate: Callable[[Sequence[int]], float] | None = None,
    *,
    share: bool = True,
) -> tuple[Interval, str]:
    """The interval of the mean of the items, or of another aggregate of them, and the method that it is by. `share`: whether
    items are shares of 1, not numbers with a unit.

    Items that all succeed or all fail say little about the next item. Resampling them cannot show that, so the share of
    successes among items that are each 0 or 1 gets Wilson's interval.
    """
    if share and aggregate is None and all(value in (0.0, 1.0) for value in values):
        return wilson(sum(value == 1.0 for value in values), len(values)), WILSON
    return bootstrap(values, aggregate), BOOTSTRAP


def wilson(successes: int, trials: int) -> Interval:
    """The score interval of a share of successes (Wilson 1927); 0 of 600 is [0, 0.0064].

    Raises ValueError where there are no trials.
    """
    from scipy.stats import (
        binomtest,  # half a second, which commands without an evaluation do not spend
    )

    interval = binomtest(successes, trials).proportion_ci(LEVEL, method="wilson")
    return float(interval.low), float(interval.high)
