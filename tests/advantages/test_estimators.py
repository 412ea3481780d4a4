from __future__ import annotations

import numpy as np
import pytest

from tests.advantages.steps import step_of
from vlrft.advantages import ESTIMATORS, valid_groups

GROUP = np.array([0, 0, 0, 1, 1, 2])
REWARDS = np.array([1.0, 0.0, 0.0, 0.5, 0.5, 3.0])


def estimate(name: str, rewards: np.ndarray = REWARDS) -> list[float]:
    return [float(a) for a in ESTIMATORS[name](step_of(rewards, GROUP)).values]


def test_centred_by_hand() -> None:
    assert estimate("centred") == pytest.approx([2 / 3, -1 / 3, -1 / 3, 0, 0, 0])


def test_standardised_by_hand() -> None:
    std = (1 / 3) ** 0.5  # unbiased std of 1, 0, 0
    expected = [2 / 3 / std, -1 / 3 / std, -1 / 3 / std, 0, 0, 0]
    assert estimate("standardised") == pytest.approx(expected, rel=1e-5)


def test_batch_standardised_by_hand() -> None:
    centred = np.array([2 / 3, -1 / 3, -1 / 3, 0, 0, 0])
    assert estimate("batch_standardised") == pytest.approx(
        (centred / centred.std(ddof=1)).tolist(), rel=1e-5
    )


@pytest.mark.parametrize("name", ["centred", "standardised", "batch_standardised"])
def test_a_float32_tie_gives_exactly_zero(name: str) -> None:
    tie = np.full(6, np.float32(0.9), dtype=np.float32)
    nearly = 0.9 + np.array([0, 1e-8, 2e-8, 0, 0, 0])
    assert estimate(name, tie) == [0.0] * 6
    assert estimate(name, nearly) == [0.0] * 6


def test_a_positive_factor_changes_nothing_when_standardised() -> None:
    rewards = np.array([1.0, 0.2, 0.4, 0.5, 0.1, 3.0])
    assert estimate("standardised", 7 * rewards) == pytest.approx(
        estimate("standardised", rewards), abs=1e-5
    )


def test_valid_groups_need_spread_beyond_rounding() -> None:
    assert valid_groups(REWARDS, GROUP, 4).tolist() == [True, False, False, False]
