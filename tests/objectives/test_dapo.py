"""DAPO and Dr. GRPO: GRPO's ratio with another advantage and another mean."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.objectives.reference import Case, random_case
from tests.objectives.reference.baselines import penalised, soft_penalty
from tests.objectives.rows import padded, step
from vlrft.algorithms import ALGORITHMS
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.selection.group_filters import DynamicSampling, KeepAll

LONG: dict[str, Any] = {"extras": {"length": 100}}  # no answer of a test is that long
SHORT: dict[str, Any] = {"extras": {"length": 6}}  # a penalty from 4.8 tokens on


def join(one: Case, other: Case) -> Case:
    """The groups of both as one step."""
    return Case(
        one.logprobs + other.logprobs,
        one.rewards + other.rewards,
        one.group + [g + 100 for g in other.group],
        one.old + other.old,
        one.ref + other.ref,
    )


@pytest.mark.parametrize("extras", [LONG, SHORT])
def test_two_steps_merged_are_the_token_weighted_mean(extras: dict[str, Any]) -> None:
    one, other = random_case(1, sizes=[3, 4]), random_case(2, sizes=[5], longest=3)
    tokens = [sum(map(len, case.logprobs)) for case in (one, other)]
    (first, g1), (second, g2) = step("dapo", one, **extras), step("dapo", other, **extras)
    merged, result = step("dapo", join(one, other), **extras)
    mean = (tokens[0] * first.loss + tokens[1] * second.loss) / sum(tokens)
    torch.testing.assert_close(merged.loss, mean, atol=1e-12, rtol=0)
    weighted = (tokens[0] * g1, tokens[1] * g2)
    for part, expected in zip((result[:7], result[7:]), weighted, strict=True):
        width = expected.shape[1]
        torch.testing.assert_close(part[:, :width], expected / sum(tokens), atol=1e-12, rtol=0)
    rollouts, _ = step("dapo", join(one, other), reduction="sequence", **extras)
    assert abs(float((rollouts.loss - mean).detach())) > 1e-4


def test_a_long_answer_is_penalised_before_the_baseline() -> None:
    case = random_case(5, sizes=[5, 4])
    assert {len(row) for row in case.logprobs} >= {4, 5, 6}
    result, _ = step("dapo", case, **SHORT)
    expected = [a for _, a in sorted(penalised(case, 6).items())]
    assert result.advantages[:, 0].tolist() == pytest.approx(expected, abs=1e-12)
    plain, _ = step("dapo", case, **LONG)
    assert not torch.allclose(result.advantages, plain.advantages)
    assert [soft_penalty(n, 10, 4) for n in (6, 7, 8, 10, 11)] == [0, -0.25, -0.5, -1, -1]


CUT = torch.tensor([False, False, False, True])


def group_at_the_limit() -> Case:
    """Answers of 2, 2, 2 and 10 tokens where 10 are allowed; the last one is cut."""
    rows = [[-0.5] * n for n in (2, 2, 2, 10)]
    return Case(rows, [1.0, 0.0, 0.0, 0.0], [0] * 4, rows, rows)


def test_the_whole_penalty_reaches_an_answer_that_is_cut_at_the_limit() -> None:
    """r' = 1, 0, 0, −1: mean 0, unbiased σ √⅔."""
    high = 1.5**0.5  # 1.22
    ten: dict[str, Any] = {"extras": {"length": 10}, "truncated": CUT}
    result, gradient = step("dapo", group_at_the_limit(), **ten)
    assert result.advantages[:, 0].tolist() == pytest.approx([high, 0.0, 0.0, -high], rel=1e-5)
    expected = padded([[-a / 16] * n for a, n in ((high, 2), (0.0, 2), (0.0, 2), (-high, 10))])
    torch.testing.assert_close(gradient, expected, atol=1e-6, rtol=0)
    filtered, _ = step("dapo_overlong_filter", group_at_the_limit(), **ten)
    assert filtered.advantages[:, 0].tolist() == pytest.approx([high, 0.0, 0.0, 0.0], rel=1e-5)


def test_with_the_filter_a_truncated_answer_has_no_gradient_but_stays_in_the_baseline() -> None:
    case = random_case(3, sizes=[4, 3])
    cut = torch.tensor([False, True, False, False, False, False, True])
    plain, before = step("dapo", case, **LONG)
    result, gradient = step("dapo_overlong_filter", case, truncated=cut, **LONG)
    assert bool((gradient[cut] == 0).all())
    assert torch.equal(gradient[~cut], before[~cut])
    assert torch.equal(result.advantages[~cut], plain.advantages[~cut])


def test_the_upper_clip_is_the_wider_one() -> None:
    case = random_case(4, sizes=[2])
    better = case.rewards[0] > case.rewards[1]

    def moved(by: float) -> Tensor:
        old = [[x - by for x in row] for row in case.logprobs]
        other = Case(case.logprobs, case.rewards, case.group, old, case.ref)
        gradient = step("dapo", other, **LONG)[1]
        return gradient if better else gradient.flip(0)

    up, far_up = moved(torch.tensor(1.27).log().item()), moved(torch.tensor(1.29).log().item())
    down, far_down = moved(torch.tensor(0.81).log().item()), moved(torch.tensor(0.79).log().item())
    assert up[0, 0] != 0
    assert bool((far_up[0] == 0).all())
    assert down[1, 0] != 0
    assert bool((far_down[1] == 0).all())


def test_in_dr_grpo_padding_changes_nothing_and_no_length_but_the_configured_one_counts() -> None:
    case = random_case(6, sizes=[4, 3])
    width = max(map(len, case.logprobs))
    _, gradient = step("dr_grpo", case, **LONG)
    _, doubled = step("dr_grpo", case, pad=width, **LONG)
    assert torch.equal(doubled[:, :width], gradient)
    _, halved = step("dr_grpo", case, extras={"length": 200})
    torch.testing.assert_close(2 * halved, gradient, atol=1e-15, rtol=0)
    assert float(gradient.abs().max()) > 1e-5


def test_in_dr_grpo_a_token_weighs_the_same_in_a_long_and_in_a_short_answer() -> None:
    case = random_case(7, sizes=[6])
    on_policy = Case(case.logprobs, case.rewards, case.group, case.logprobs, case.ref)
    result, gradient = step("dr_grpo", on_policy, **LONG)
    weight = 1 / (6 * 100)
    lengths = [len(row) for row in case.logprobs]
    advantages = [r - sum(case.rewards) / 6 for r in case.rewards]
    expected = padded([[-a * weight] * n for a, n in zip(advantages, lengths, strict=True)])
    torch.testing.assert_close(gradient, expected, atol=1e-15, rtol=0)
    assert result.metrics["groups/valid_share"] == 1.0


def test_the_algorithms_are_the_papers() -> None:
    assert "mute_truncated" not in ALGORITHMS["dapo"].advantage
    filtered = ALGORITHMS["dapo_overlong_filter"]
    assert filtered.advantage == (*ALGORITHMS["dapo"].advantage, "mute_truncated")
    assert (filtered.objective, filtered.keep, filtered.reduction) == (
        ALGORITHMS["dapo"].objective,
        ALGORITHMS["dapo"].keep,
        ALGORITHMS["dapo"].reduction,
    )
    assert ALGORITHMS["dapo"].objective == ClippedRatio(clip_low=0.2, clip_high=0.28)
    assert ALGORITHMS["dr_grpo"].objective == ClippedRatio(clip_low=0.2, clip_high=0.2)
    assert ALGORITHMS["dapo"].keep == DynamicSampling()
    assert ALGORITHMS["dr_grpo"].keep == KeepAll()
    assert not any(ALGORITHMS[name].needs.ref_logprobs for name in ("dapo", "dr_grpo"))
