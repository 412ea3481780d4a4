"""Every advantage estimator passes the suite that plugin authors inherit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.conformance.failures import check_names, failure_of
from vlrft.advantages import ESTIMATORS, Estimator, EstimatorInput
from vlrft.testing.estimator import EstimatorConformance

CHECKS = check_names(EstimatorConformance)
NOT_COMPARING = {"one", "reward"}


class OfOurs(EstimatorConformance):
    def __init__(self, name: str) -> None:
        self.name = name
        self.compares = name not in NOT_COMPARING
        self.reads_rewards = name != "one"

    def estimator(self) -> Estimator:
        return ESTIMATORS[self.name]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_an_estimator_of_ours(name: str, check: str) -> None:
    assert failure_of(OfOurs(name), check) is None


def by_place(inputs: EstimatorInput) -> EstimatorInput:
    """Depends on the order of the rollouts, and changes its input."""
    inputs.values[:] = np.arange(len(inputs.values))
    return replace(inputs, values=inputs.values)


class Broken(EstimatorConformance):
    def estimator(self) -> Estimator:
        return Estimator(name="by place", doc="", steps=(by_place,))


@pytest.mark.parametrize(
    "check",
    [
        "test_the_order_of_groups_and_rollouts_changes_nothing",
        "test_its_input_is_left_as_it_was",
        "test_equal_rewards_give_no_advantage",
    ],
)
def test_the_suite_fails_for_a_careless_estimator(check: str) -> None:
    assert failure_of(Broken(), check)
