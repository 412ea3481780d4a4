"""Every step against its slow reference on ragged groups, and against wrong versions of itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.advantages.step_mutants import MUTANTS
from tests.advantages.step_reference import STEP_REFERENCES, random_toy
from tests.advantages.test_estimators import input_of
from tests.conformance.failures import check_names, failure_of
from vlrft.advantages import STEPS, Estimator, estimate_advantages, find_estimator
from vlrft.testing.estimator import EstimatorConformance

TOYS = [random_toy(seed) for seed in range(40)]
NO_OTHERS = {"leave_one_out"}  # refuses a group of one
CHECKS = check_names(EstimatorConformance)
TEACH_FLAT = {"one", "shift", "forward_noise", "shorter_when_right", "lead", "add_step"} | {
    "unlikely",
    "self_certainty",
    "minus_entropy",
    "rare_formats",
    "minus_known",
    "minus_tracked",
}
READ_SCORES = {
    "combine",
    "gate",
    "worst_of",
    "mean_minus_variance",
    "few_calls",
    "first_turns",
    "times",
    "rare_formats",
    "minus_known",
}


def assert_the_reference(name: str, steps: list[Any]) -> None:
    """The pipeline's values equal the reference of the step `name` on every toy that it is defined for."""
    compared = 0
    for toy in TOYS:
        if name in NO_OTHERS and any(toy.group.count(k) == 1 for k in toy.group):
            continue
        expected = STEP_REFERENCES[name][1](toy)
        estimator, inputs = find_estimator(steps), input_of(toy)
        values = [float(v) for v in estimator(inputs).values]
        if expected and isinstance(expected[0], list):
            rows = [row.tolist() for row in estimate_advantages(inputs, estimator)]
            assert list(map(len, rows)) == [len(row) for row in expected if isinstance(row, list)]
            values = [v for row in rows for v in row]
            expected = [v for row in expected if isinstance(row, list) for v in row]
        assert values == pytest.approx(expected, rel=1e-12, abs=1e-12)
        compared += len({round(v, 9) for v in values}) > 1
    assert compared or name == "one"  # toys in which the step tells rollouts apart


def test_every_step_has_a_reference() -> None:
    assert set(STEP_REFERENCES) == set(STEPS)


@pytest.mark.parametrize("name", STEP_REFERENCES)
def test_every_step_equals_its_reference(name: str) -> None:
    assert_the_reference(name, STEP_REFERENCES[name][0])


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_version_is_rejected_by_the_reference(name: str) -> None:
    before, mutant = MUTANTS[name]
    with pytest.raises(AssertionError):
        assert_the_reference(name, [*before, mutant])


class OfAStep(EstimatorConformance):
    def __init__(self, name: str) -> None:
        self.name = name

    def estimator(self) -> Estimator:
        return find_estimator(STEP_REFERENCES[self.name][0])


ORDER_AND_INPUT = [c for c in CHECKS if "order" in c or "left_as" in c or "every_action" in c]


@pytest.mark.parametrize("name", sorted(set(STEPS) - READ_SCORES - {"overlong"}))
def test_order_changes_nothing_and_the_input_stays_as_it_was(name: str) -> None:
    for check in ORDER_AND_INPUT:
        assert failure_of(OfAStep(name), check) is None
    if name not in TEACH_FLAT:
        flat = "test_equal_rewards_give_no_advantage"
        compares = find_estimator(STEP_REFERENCES[name][0]).min_group > 1
        assert failure_of(OfAStep(name), flat) is None or not compares
