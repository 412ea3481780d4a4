"""Bootstrap confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from vlrft.evaluation.bootstrap import bootstrap, paired_gain
from vlrft.schema import DataError


def test_the_bootstrap_interval_is_the_normal_one_for_many_records() -> None:
    values = ([1.0] * 600) + ([0.0] * 400)
    low, high = bootstrap(values)
    error = 1.96 * (0.6 * 0.4 / 1000) ** 0.5
    assert low == pytest.approx(0.6 - error, abs=0.004)
    assert high == pytest.approx(0.6 + error, abs=0.004)
    assert bootstrap(values) == (low, high)
    assert bootstrap([0.3] * 5) == pytest.approx((0.3, 0.3))


def test_an_aggregate_other_than_the_mean_is_resampled() -> None:
    values = np.random.default_rng(0).normal(size=200).tolist()
    low, high = bootstrap(values, lambda indices: max(values[i] for i in indices))
    assert low < high == max(values)


def test_resamples_without_a_value_are_left_out_of_the_interval() -> None:
    """Such as an F1 of resamples without a positive, which is 0/0."""
    positives = [0.0] * 9 + [1.0]

    def share(places: Sequence[int]) -> float:
        return 0.5 if any(positives[p] for p in places) else math.nan

    assert bootstrap(positives, share) == (0.5, 0.5)
    with pytest.raises(DataError, match="no resample of its items has a finite value"):
        bootstrap(positives, lambda places: math.nan)


def test_pairs_make_the_interval_of_a_difference_narrower() -> None:
    before = [float(i % 2) for i in range(400)]
    after = [1.0 if i % 10 == 0 else b for i, b in enumerate(before)]
    gain, (low, high) = paired_gain(before, after)
    assert gain == pytest.approx(0.1)
    assert 0.05 < low < 0.1 < high < 0.15


def test_intervals_contain_the_truth_about_as_often_as_their_level_says() -> None:
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        low, high = bootstrap(generator.binomial(1, 0.3, size=100).astype(float).tolist())
        covered += low <= 0.3 <= high
    assert 0.9 <= covered / 200 <= 0.99  # 95 %, with a standard error of 1.5 points in 200 trials


def test_the_mean_as_an_aggregate_gives_the_same_interval() -> None:
    values = np.random.default_rng(2).uniform(size=50).tolist()
    assert bootstrap(
        values, lambda indices: sum(values[i] for i in indices) / len(indices)
    ) == pytest.approx(bootstrap(values))


def test_no_change_has_no_gain_and_a_change_everywhere_is_certain() -> None:
    values = [0.0, 1.0, 0.5]
    assert paired_gain(values, values) == (0.0, (0.0, 0.0))
    gain, interval = paired_gain(values, [v + 0.25 for v in values])
    assert gain == pytest.approx(0.25)
    assert interval == pytest.approx((0.25, 0.25))


def test_the_sign_of_a_gain_follows_the_order() -> None:
    generator = np.random.default_rng(3)
    before, after = generator.uniform(size=(2, 80)).tolist()
    gain, (low, high) = paired_gain(before, after)
    back, (lower, higher) = paired_gain(after, before)
    assert back == pytest.approx(-gain)
    assert (lower, higher) == pytest.approx((-high, -low))


def test_records_that_do_not_pair_are_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired_gain([0.0], [1.0, 0.0, 1.0])
