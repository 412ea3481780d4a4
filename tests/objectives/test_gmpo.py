"""GMPO against the paper's Algorithm 1, and each of its ablations against its own formula."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.objectives.reference import random_case
from tests.objectives.reference.ratio import gmpo_row
from tests.objectives.rows import Rows, batch_of, differences, gradient_of, padded
from vlrft.algorithms import ALGORITHMS, find_algorithm
from vlrft.objectives import reduce
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.objectives.gmpo import Aggregate, Gmpo
from vlrft.schema.errors import ConfigError

OPTIONS: list[dict[str, Any]] = [
    {},
    {"clip": "none"},
    {"clip": "sequence"},
    {"normalise": False},
    {"clip": "none", "normalise": False},
    {"clip": "sequence", "normalise": False},
    *[
        {"aggregate": kind, "clip": clip}
        for kind in ("arithmetic", "harmonic", "interquartile")
        for clip in ("token", "none")
    ],
]
CASE = random_case(21, sizes=[7], longest=9, spread=0.9)
SIGNED = [1.3, -0.7, 0.2, -2.0, 0.0, 0.9, -0.4]


def algorithm_1(new: list[float], old: list[float], a: float, epsilon: float = 0.4) -> float:
    """The paper's listing: probabilities of one rollout in, its loss out."""
    sign = 1 if a > 0 else -1
    exponent = 0.0
    for p, q in zip(new, old, strict=True):
        d = sign * (math.log(p) - math.log(q))
        exponent += sign * min(d, min(max(d, -epsilon), epsilon))
    return -a * math.exp(exponent / len(new))


def test_a_row_by_hand() -> None:
    batch = batch_of([[0.0, 0.0], [0.0, 0.0]], [2.0, -1.0])
    values = Gmpo()(padded([[0.6, -0.8], [0.6, -0.8]]), batch).values
    assert values[0].tolist() == [pytest.approx(-2 * math.exp((0.4 - 0.8) / 2))] * 2
    assert values[1].tolist() == [pytest.approx(math.exp((0.6 - 0.4) / 2))] * 2


def test_every_row_equals_algorithm_1() -> None:
    values = Gmpo()(padded(CASE.logprobs), batch_of(CASE.old, SIGNED)).values
    for b, a in enumerate(SIGNED):
        expected = algorithm_1(
            [math.exp(x) for x in CASE.logprobs[b]], [math.exp(x) for x in CASE.old[b]], a
        )
        assert values[b, 0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_each_option_equals_its_own_formula(options: Mapping[str, Any]) -> None:
    batch = batch_of(CASE.old, SIGNED)
    objective = Gmpo(**options)

    def slow(rows: Rows) -> float:
        losses = [
            gmpo_row(r, o, a, **options) for r, o, a in zip(rows, CASE.old, SIGNED, strict=True)
        ]
        return sum(losses) / len(rows)

    loss = reduce(objective(padded(CASE.logprobs), batch), batch, "sequence")
    assert float(loss) == pytest.approx(slow(CASE.logprobs), abs=1e-12)
    result = gradient_of(objective, CASE.logprobs, batch)
    torch.testing.assert_close(result, differences(slow, CASE.logprobs), atol=1e-8, rtol=1e-6)


def test_without_a_clip_a_rollout_moves_no_more_than_in_grpo() -> None:
    """Jensen, rollout by rollout: the geometric mean is no larger than the arithmetic one."""
    unbounded = ClippedRatio(clip_low=1.0, clip_high=1e9)
    strict = 0
    for seed in range(20):
        case = random_case(seed, sizes=[7], longest=9, spread=1.5)
        batch, now = batch_of(case.old, SIGNED), padded(case.logprobs)
        gmpo = Gmpo(clip="none")(now, batch).values[:, 0].abs()
        grpo = (unbounded(now, batch).values.sum(1) / batch.mask.sum(1)).abs()
        assert bool((gmpo <= grpo + 1e-12).all())
        strict += int((gmpo < grpo - 1e-3).sum())
    assert strict > 40


def test_harmonic_geometric_arithmetic_means_are_in_that_order() -> None:
    batch, now = batch_of(CASE.old, [1.0] * 7), padded(CASE.logprobs)
    kinds: tuple[Aggregate, ...] = ("harmonic", "geometric", "arithmetic")
    low, middle, high = (
        Gmpo(clip="none", aggregate=k)(now, batch).values[:, 0].abs() for k in kinds
    )
    assert bool((low <= middle + 1e-12).all() & (middle <= high + 1e-12).all())


@pytest.mark.parametrize("n", range(1, 14))
def test_the_interquartile_mean_takes_the_papers_ranks(n: int) -> None:
    row = [math.log(1.0 + k) for k in range(n)]  # ratios 1 … n, so that a rank is its ratio
    batch = batch_of([[0.0] * n], [1.0])
    result = -Gmpo(clip="none", aggregate="interquartile")(padded([row[::-1]]), batch).values[0, 0]
    ranks = range(n // 4 + 1, math.ceil(3 * n / 4) + 1)
    assert float(result) == pytest.approx(sum(ranks) / len(ranks))


def test_a_sequence_clip_bounds_the_sum() -> None:
    batch = batch_of([[0.0] * 4, [0.0] * 4], [1.0, -1.0])
    values = Gmpo(clip="sequence")(padded([[0.3] * 4, [-0.3] * 4]), batch).values[:, 0]
    assert values.tolist() == [pytest.approx(-math.exp(0.1)), pytest.approx(math.exp(-0.1))]


def test_inserted_tokens_between_sampled_ones_are_ignored() -> None:
    """An agent's row contains tokens of the environment; the mean is over the policy's tokens."""
    for options in OPTIONS:
        objective = Gmpo(**options)
        plain = objective(padded([[0.3, -0.5, 0.7]]), batch_of([[0.0] * 3], [1.5])).values[0, 0]
        wide = batch_of([[0.0] * 6], [1.5])
        mask = torch.tensor([[True, False, True, False, False, True]])
        masked = replace(wide, mask=mask, advantages=wide.advantages * mask)
        spread = objective(padded([[0.3, 5.0, -0.5, -5.0, 9.0, 0.7]]), masked).values[0, 0]
        assert float(spread) == pytest.approx(float(plain), abs=1e-12)


def test_the_shares_of_clipped_tokens_are_observed() -> None:
    batch = batch_of([[0.0] * 3, [0.0] * 3], [1.0, -1.0])
    now = padded([[0.5, -0.5, 0.3], [0.5, -0.5, -0.6]])
    result = Gmpo()(now, batch).observed
    assert result["ratio/clipped_high"].tolist() == [[1, 0, 0], [0, 0, 0]]
    assert result["ratio/clipped_low"].tolist() == [[0, 0, 0], [0, 1, 1]]
    by_row = Gmpo(clip="sequence", clip_low=0.5)(now, batch).observed
    assert by_row["ratio/clipped_low"].tolist() == [[0, 0, 0], [1, 1, 1]]
    assert not Gmpo(clip="none")(now, batch).observed


@pytest.mark.parametrize("wrong", [{"clip": "sequence"}, {"normalise": False}])
def test_a_mean_over_tokens_has_no_form_for_whole_sequences(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="aggregate: harmonic is a mean over tokens"):
        find_algorithm({"name": "gmpo", "objective": {"aggregate": "harmonic", **wrong}})


def test_the_algorithm_is_the_papers() -> None:
    gmpo = ALGORITHMS["gmpo"]
    assert (gmpo.advantage, gmpo.reduction, gmpo.objective) == ("standardised", "sequence", Gmpo())
    assert gmpo.regularize.kl == 0
    assert not gmpo.needs.ref_logprobs
