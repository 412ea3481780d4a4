"""RLOO, ReMax, REINFORCE++ and the like: the advantages of each, and that the rest is a policy gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.objectives.reference import Case, random_case
from tests.objectives.reference.baselines import above_the_others, whitened
from tests.objectives.rows import padded, step
from vlrft.algorithms import ALGORITHMS
from vlrft.schema.errors import AdvantageError
from vlrft.selection.group_filters import DynamicSampling, KeepAll
from vlrft.selection.rollout_filters import Positives


def on_policy(seed: int, sizes: tuple[int, ...] = (4, 3, 5)) -> Case:
    case = random_case(seed, sizes=sizes)
    return Case(case.logprobs, case.rewards, case.group, case.logprobs, case.ref)


def policy_gradient(case: Case, advantages: dict[int, float]) -> Tensor:
    """∂/∂log π of −Σ_it log π(o_it) A_i / Σ|o|"""
    tokens = sum(map(len, case.logprobs))
    return padded([[-advantages[b] / tokens] * len(row) for b, row in enumerate(case.logprobs)])


@pytest.mark.parametrize(
    ("name", "advantages"), [("rloo", above_the_others), ("reinforce_pp", whitened)]
)
def test_on_policy_the_gradient_is_the_policy_gradient(name: str, advantages: Any) -> None:
    for seed in range(3):
        case = on_policy(seed)
        _, result = step(name, case)
        assert float(result.abs().max()) > 1e-3
        torch.testing.assert_close(
            result, policy_gradient(case, advantages(case)), atol=1e-12, rtol=0
        )


def test_off_policy_the_ratio_is_clipped() -> None:
    """log ρ = 0.5 everywhere: tokens of answers better than the others are at the bound, worse ones are not."""
    case = on_policy(1)
    ahead = Case(
        case.logprobs, case.rewards, case.group, [[x - 0.5 for x in r] for r in case.old], case.ref
    )
    for name in ("rloo", "reinforce_pp"):
        result, gradient = step(name, ahead)
        better = result.advantages[:, 0] > 0
        assert bool((gradient[better] == 0).all())
        assert bool((gradient[~better][:, 0] > 0).all())
        assert result.metrics["ratio/clipped_high"] > 0


def test_rloo_needs_other_rollouts_in_a_group() -> None:
    with pytest.raises(AdvantageError, match="rloo: group 1"):
        step("rloo", on_policy(0, (3, 1)))


def test_whitened_advantages_have_mean_0_and_spread_1_over_the_tokens_of_the_step() -> None:
    case = on_policy(4)
    result, _ = step("reinforce_pp", case)
    by_token = torch.cat([result.advantages[b, : len(row)] for b, row in enumerate(case.logprobs)])
    assert float(by_token.mean()) == pytest.approx(0.0, abs=1e-12)
    assert float(by_token.std(correction=0)) == pytest.approx(1.0, abs=1e-5)


def test_reinforce_pp_whitens_over_tokens_as_its_authors_do() -> None:
    """Answers of 2, 10, 4 and 4 tokens, rewards 1, 0 and 1, 1. Above their groups' means: ½, −½, 0, 0. Of the 20 tokens
    the mean is (2·½ − 10·½) / 20 = −0.2, the variance (2·0.7² + 10·0.3² + 8·0.2²) / 20 = 0.11."""
    rows = [[-0.5] * n for n in (2, 10, 4, 4)]
    case = Case(rows, [1.0, 0.0, 1.0, 1.0], [0, 0, 1, 1], rows, rows)
    result, gradient = step("reinforce_pp", case)
    assert result.advantages[:, 0].tolist() == pytest.approx([2.11, -0.90, 0.60, 0.60], abs=0.006)
    expected = [a / 0.11**0.5 for a in (0.7, -0.3, 0.2, 0.2)]
    assert result.advantages[:, 0].tolist() == pytest.approx(expected, rel=1e-5)
    by_token = [[-a / 20] * n for a, n in zip(expected, (2, 10, 4, 4), strict=True)]
    torch.testing.assert_close(gradient, padded(by_token), atol=0, rtol=1e-5)
    once, _ = step("reinforce_pp", case, advantage=["centre", "whiten"])
    assert once.advantages[:, 0].tolist() == pytest.approx([1.22, -1.22, 0.0, 0.0], abs=0.006)


@pytest.mark.parametrize("name", ["rloo", "reinforce_pp"])
def test_steps_without_signal_are_exactly_zero(name: str) -> None:
    case = on_policy(2, (3, 2))
    flat = Case(case.logprobs, [0.7, 0.7, 0.7, 0.1, 0.1], case.group, case.old, case.ref)
    result, gradient = step(name, flat)
    assert float(result.loss.detach()) == 0.0
    assert bool((gradient == 0).all())


def test_in_rloo_a_group_without_signal_has_no_gradient() -> None:
    case = on_policy(2, (3, 2))
    half = Case(case.logprobs, [0.7, 0.7, 0.7, 0.1, 1.0], case.group, case.old, case.ref)
    assert bool((step("rloo", half)[1][:3] == 0).all())


def test_remax_compares_with_the_greedy_answer_of_the_same_sample() -> None:
    """One answer a sample is enough; an answer as good as the greedy one has no gradient."""
    case = Case([[-1.0, -2.0], [-0.5]], [1.0, 0.25], [0, 1], [[-1.0, -2.0], [-0.5]], [[], []])
    _, gradient = step("remax", case, extras={"greedy_rewards": [0.25, 0.25]})
    assert gradient.tolist() == [[pytest.approx(-0.25), pytest.approx(-0.25)], [0.0, 0.0]]
    several = on_policy(3)
    base = [0.4 if g else 0.6 for g in several.group]
    gaps = {b: r - g for b, (r, g) in enumerate(zip(several.rewards, base, strict=True))}
    _, result = step("remax", several, extras={"greedy_rewards": base})
    torch.testing.assert_close(result, policy_gradient(several, gaps), atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["raft", "reinforce_rej"])
def test_plain_rewards_weight_the_mean_log_prob_of_each_answer(name: str) -> None:
    case = on_policy(6)
    _, result = step(name, case)
    rows = zip(case.rewards, map(len, case.logprobs), strict=True)
    torch.testing.assert_close(
        result, padded([[-r / n / len(case.rewards)] * n for r, n in rows]), atol=1e-12, rtol=0
    )


def test_each_algorithm_has_its_own_group_filter() -> None:
    assert ALGORITHMS["raft"].select == Positives()
    assert ALGORITHMS["raft"].keep == KeepAll()
    assert ALGORITHMS["reinforce_rej"].keep == DynamicSampling(max_attempts=1)
    assert ALGORITHMS["reinforce_rej"].select is None
