"""Paired t-tests of a contrast, what they can find, and Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt
from statistics import fmean, stdev

from scipy import optimize, stats

POWER = 0.8


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of the differences of a contrast over seeds."""

    count: int
    mean: float
    deviation: float
    interval: tuple[float, float]  # 95 %
    p: float  # two-sided, of the mean and -margin; NaN without a test

    @staticmethod
    def correct(outcomes: Sequence[Outcome]) -> list[float]:
        """Holm's corrected p of each; one without a test stays NaN and does not count."""
        order = sorted(
            (k for k, o in enumerate(outcomes) if o.p == o.p), key=lambda k: outcomes[k].p
        )
        corrected, least = [nan] * len(outcomes), 0.0
        for rank, k in enumerate(order):
            least = max(least, min(1.0, (len(order) - rank) * outcomes[k].p))
            corrected[k] = least
        return corrected


def find_outcome(differences: Sequence[float], margin: float = 0.0) -> Outcome:
    """With fewer than two seeds, or without a spread, there is no test."""
    count = len(differences)
    if count < 2:
        mean = fmean(differences) if differences else nan
        return Outcome(count=count, mean=mean, deviation=nan, interval=(nan, nan), p=nan)
    mean, deviation = fmean(differences), stdev(differences)
    error = deviation / sqrt(count)
    reach = float(stats.t.ppf(0.975, count - 1)) * error
    p = float(2 * stats.t.sf(abs(mean + margin) / error, count - 1)) if error else nan
    return Outcome(count=count, mean=mean, deviation=deviation, interval=(mean - reach, mean + reach), p=p)  # fmt: skip


def smallest_difference(deviation: float, count: int, level: float) -> float:
    """The true difference that a two-sided paired t-test at this level finds with a probability of POWER."""
    limit = float(stats.t.ppf(1 - level / 2, count - 1))

    def missing(effect: float) -> float:
        shift = effect * sqrt(count)
        return float(stats.nct.sf(limit, count - 1, shift)) - POWER  # the other tail adds nothing

    return deviation * float(optimize.brentq(missing, 0.01, 5.0))
