"""Tokens and log-probs from logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from vlrft.rollout.engines.sampling import draw_uniforms, sample_tokens, truncate

NONE = torch.zeros(4, dtype=torch.bool)
LOGITS = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()


def frequencies(
    count: int = 40000, **settings: float | int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    uniform = draw_uniforms(range(count), 1)[:, 0]
    options: dict[str, Any] = {"temperature": 1.0, **settings}
    tokens, _ = sample_tokens(LOGITS.expand(count, 4), uniform, NONE, **options)
    return np.bincount(tokens.numpy(), minlength=4) / count


# Standard error of a share of 0.5 in 40,000 draws: 0.0025.
def test_tokens_are_as_frequent_as_their_probabilities() -> None:
    assert frequencies() == pytest.approx([0.1, 0.4, 0.2, 0.3], abs=0.01)


def test_a_low_temperature_sharpens_the_distribution() -> None:
    shares = np.array([0.1, 0.4, 0.2, 0.3]) ** 2
    assert frequencies(temperature=0.5) == pytest.approx(shares / shares.sum(), abs=0.01)


def test_a_top_p_that_float32_rounds_to_0_leaves_the_likeliest_token() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0]])
    left = truncate(logits, top_p=1e-300)
    assert left.tolist() == [[-torch.inf, 2.0, -torch.inf]]


def test_top_k_and_top_p_leave_the_likeliest() -> None:
    assert frequencies(top_k=2) == pytest.approx([0, 4 / 7, 0, 3 / 7], abs=0.01)
    assert frequencies(top_p=0.71) == pytest.approx([0, 4 / 9, 2 / 9, 3 / 9], abs=0.01)
    assert frequencies(top_p=0.69) == pytest.approx([0, 4 / 7, 0, 3 / 7], abs=0.01)
    assert frequencies(top_p=1e-6) == pytest.approx([0, 1, 0, 0])
    assert frequencies(top_k=3, top_p=0.7) == pytest.approx([0, 4 / 7, 0, 3 / 7], abs=0.01)


def test_log_probs_are_of_the_distribution_that_was_sampled_from() -> None:
    uniform = torch.tensor([0.05, 0.45, 0.95], dtype=torch.float64)
    rows = LOGITS.expand(3, 4)
    tokens, logprobs = sample_tokens(rows, uniform, NONE, temperature=1.0)
    assert tokens.tolist() == [0, 1, 3]
    torch.testing.assert_close(logprobs, LOGITS[tokens], rtol=0, atol=1e-6)
    tokens, logprobs = sample_tokens(rows, uniform, NONE, temperature=1.0, top_k=2)
    assert tokens.tolist() == [1, 1, 3]
    torch.testing.assert_close(logprobs.exp(), torch.tensor([4 / 7, 4 / 7, 3 / 7]))


def test_banned_tokens_are_never_sampled_whatever_the_uniform() -> None:
    banned = torch.tensor([True, False, False, True])
    uniform = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)  # 1: a product may round to it
    tokens, logprobs = sample_tokens(LOGITS.expand(3, 4), uniform, banned, temperature=1.0)
    assert tokens.tolist() == [1, 1, 2]
    torch.testing.assert_close(logprobs.exp(), torch.tensor([2 / 3, 2 / 3, 1 / 3]))


def test_greedy_takes_the_first_of_the_likeliest_that_is_allowed() -> None:
    banned = torch.tensor([False, True, False, False])
    tokens, logprobs = sample_tokens(LOGITS[None], torch.zeros(1), banned, temperature=0.0)
    assert tokens.tolist() == [3]
    assert logprobs.exp().item() == pytest.approx(0.3 / 0.6)


def test_truncation_keeps_ties_of_the_last_rank_and_one_token_at_least() -> None:
    level = torch.zeros(1, 4)
    assert torch.isfinite(truncate(level, top_k=2)).sum() == 4
    assert torch.isfinite(truncate(level, top_p=0.5)).sum() == 2
    assert torch.isfinite(truncate(level, top_p=1e-9)).sum() == 1


def test_a_rows_uniforms_depend_on_its_seed_alone() -> None:
    one = draw_uniforms([7, 8, 9], 20)
    two = draw_uniforms([9, 7], 50)
    assert torch.equal(one[0], two[1, :20])
    assert torch.equal(one[2], two[0, :20])
    assert not torch.equal(one[0], one[1])
    assert one.min() >= 0
    assert one.max() < 1


@pytest.mark.parametrize("settings", [{"temperature": 1.0}, {"temperature": 0.0}, {"top_p": 0.5}])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_logits_that_are_not_finite_give_log_probs_that_are_not(
    value: float, settings: dict[str, Any]
) -> None:
    rows = torch.stack([LOGITS, torch.full((4,), value)])
    uniform = torch.tensor([0.45, 0.45], dtype=torch.float64)
    tokens, logprobs = sample_tokens(rows, uniform, NONE, **{"temperature": 1.0, **settings})
    assert tokens[0] == 1
    assert 0 <= tokens[1] < 4
    assert logprobs.isfinite().tolist() == [True, False]
