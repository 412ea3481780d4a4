"""Every objective that an algorithm uses passes the suite that plugin authors inherit."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from torch import Tensor

from tests.conformance.failures import check_names, failure_of
from vlrft.algorithms import ALGORITHMS, Algorithm
from vlrft.objectives import LossBatch, Needs, Objective, Terms
from vlrft.testing.objective import ObjectiveConformance

CHECKS = check_names(ObjectiveConformance)


class OfAnAlgorithm(ObjectiveConformance):
    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.reduction = algorithm.reduction
        if algorithm.estimator.min_group == 2 and algorithm.reduction == "pair":
            self.sizes = (2, 2, 2)

    def objective(self) -> Objective:
        return self.algorithm.objective


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_an_objective_of_ours(name: str, check: str) -> None:
    assert failure_of(OfAnAlgorithm(ALGORITHMS[name]), check) is None


@dataclass(kw_only=True)
class Careless:
    """Breaks what the suite asks for: a mean over the micro-batch, a division by zero at masked
    tokens; not frozen."""

    needs = Needs()

    def __call__(self, logprobs: Tensor, batch: LossBatch) -> Terms:
        mean = (logprobs * batch.advantages).mean()
        return Terms(
            values=-mean * (logprobs / logprobs.detach()), observed={"mean": logprobs * 1.0}
        )


class Broken(ObjectiveConformance):
    def objective(self) -> Objective:
        return Careless()


@pytest.mark.parametrize(
    "check",
    [
        "test_it_is_a_frozen_dataclass_that_declares_its_needs",
        "test_masked_tokens_have_no_gradient_whatever_their_values",
        "test_micro_batches_add_up_to_the_step",
        "test_what_it_reports_is_detached",
    ],
)
def test_the_suite_fails_for_a_careless_objective(check: str) -> None:
    assert failure_of(Broken(), check)
