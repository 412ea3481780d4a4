"""KL penalty and entropy bonus, added to any algorithm."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.objectives.reference import Case, random_case
from vlrft.algorithms import policy_loss

CASE = random_case(3, sizes=[3, 4], longest=4)
WIDTH = max(map(len, CASE.logprobs))


def loss(name: str = "gpg", **overrides: Any) -> Tensor:
    extras = {"entropy": overrides.pop("entropy", None)}
    return policy_loss(
        name,
        logprobs=CASE.padded(CASE.logprobs, WIDTH, 0.0),
        rewards=CASE.rewards,
        group=CASE.group,
        mask=mask(CASE),
        old_logprobs=CASE.padded(CASE.old, WIDTH, 0.0),
        ref_logprobs=CASE.padded(CASE.ref, WIDTH, 0.0),
        extras={k: v for k, v in extras.items() if v is not None},
        **overrides,
    ).loss


def mask(case: Case) -> Tensor:
    lengths = torch.tensor([len(row) for row in case.logprobs])
    return torch.arange(WIDTH)[None] < lengths[:, None]


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_a_penalty_on_gpg_is_the_group_mean_of_the_estimate(estimator: str) -> None:
    expected = 0.0
    groups = CASE.groups()
    for g in groups:
        tokens = sum(len(CASE.logprobs[b]) for b in g)
        for b in g:
            for lp, ref in zip(CASE.logprobs[b], CASE.ref[b], strict=True):
                d = ref - lp
                estimates = {"k1": -d, "k2": d * d / 2, "k3": math.exp(d) - d - 1}
                expected += 0.3 * estimates[estimator] / tokens / len(groups)
    penalised = loss(regularize={"kl": 0.3, "kl_estimator": estimator})
    assert float(penalised - loss()) == pytest.approx(expected, abs=1e-12)


def test_an_entropy_bonus_lowers_the_loss_by_the_mean_entropy() -> None:
    entropy = torch.rand(len(CASE.group), WIDTH, dtype=torch.float64, requires_grad=True)
    result = loss("grpo", regularize={"kl": 0.0, "entropy": 0.5}, entropy=entropy)
    rows = [float(e[: len(r)].mean()) for e, r in zip(entropy.detach(), CASE.logprobs, strict=True)]
    plain = loss("grpo", regularize={"kl": 0.0})
    assert float((result - plain).detach()) == pytest.approx(
        -0.5 * sum(rows) / len(rows), abs=1e-12
    )
    result.backward()  # type: ignore[no-untyped-call]
    assert entropy.grad is not None
    assert bool((entropy.grad[~mask(CASE)] == 0).all())


def test_garbage_in_the_entropy_at_padding_is_ignored() -> None:
    entropy = torch.ones(len(CASE.group), WIDTH, dtype=torch.float64)
    clean = loss(regularize={"entropy": 0.5}, entropy=entropy)
    dirty = loss(
        regularize={"entropy": 0.5}, entropy=entropy.masked_fill(~mask(CASE), float("nan"))
    )
    assert torch.equal(clean, dirty)


def test_a_missing_input_is_named_in_the_error() -> None:
    with pytest.raises(ValueError, match="entropy"):
        loss(regularize={"entropy": 0.1})
