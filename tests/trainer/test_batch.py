"""Batches of a step: their rows, micro-batches, advantages and sampled log-probs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from vlrft.advantages.rows import estimate_rows, rollout_means
from vlrft.algorithms import ALGORITHMS, Algorithm, find_algorithm
from vlrft.schema import Piece, Pixels, Prompt, RewardError, TrainingRow
from vlrft.testing.small_policies import group
from vlrft.trainer.batch import Batch, make_batch, make_batches

GPG = ALGORITHMS["gpg"]
GROUPS = [
    group("aaaa", [1.0, 0.0, 0.0], [[1, 2, 3], [4], []]),
    group("b", [1.0, 1.0], [[5, 5], [6, 6]]),
    group("cc", [0.0, 1.0], [[7, 8], [9]]),
]


def no_weight(image: Pixels) -> int:
    return 0


def batch(algorithm: Algorithm = GPG) -> Batch:
    return make_batch(
        GROUPS,
        estimate_rows(GROUPS, algorithm.estimator),
        algorithm,
        temperature=1.0,
        max_tokens=10,
    )


def test_rows_without_a_gradient_are_left_out_but_counted() -> None:
    made = batch()
    assert made.ids == ((1, 2, 3), (4,), (7, 8), (9,))
    counts = made.loss.denominators
    assert (counts.tokens, counts.rollouts, counts.groups, counts.valid_groups) == (11, 7, 3, 2)
    assert made.loss.group.tolist() == [0, 0, 2, 2]
    assert made.loss.group_tokens.tolist() == [4, 4, 3, 3]
    assert made.loss.rollout_tokens.tolist() == [3, 1, 2, 1]
    assert made.loss.mask.sum(1).tolist() == [3, 1, 2, 1]
    assert made.samples == ("aaaa", "aaaa", "cc", "cc")


def test_an_algorithm_with_a_kl_term_runs_every_group() -> None:
    with_kl = batch(ALGORITHMS["grpo"])
    assert len(with_kl.ids) == 6  # all but the empty completion
    without = batch(find_algorithm({"name": "grpo", "regularize": {"kl": 0.0}}))
    assert len(without.ids) == 4


def test_rows_with_equal_prompts_share_a_pack() -> None:
    items = batch().items()
    assert [len(i.rows) for i in items] == [2, 2]
    assert bytes(items[0].prompt.ids) == b"aaaa"
    assert batch().tokens == 4 + 4 + 2 + 3


def test_equal_prompts_of_different_groups_share_a_pack() -> None:
    twice = [GROUPS[0], GROUPS[2], GROUPS[0]]
    made = make_batch(
        twice, estimate_rows(twice, GPG.estimator), GPG, temperature=1.0, max_tokens=10
    )
    assert [len(i.rows) for i in made.items()] == [4, 2]
    assert made.loss.group.tolist() == [0, 0, 2, 2, 1, 1]


@pytest.mark.parametrize("budget", [1, 6, 8, 12, 1000])
def test_micro_batches_hold_every_row_once_within_the_budget(budget: int) -> None:
    micros = [batch().take(rows) for rows in batch().micro_batch_rows(budget, no_weight)]
    assert sorted(i for micro in micros for i in micro.ids) == sorted(batch().ids)
    for micro in micros:
        lengths = [len(i.prompt.ids) + sum(map(len, i.rows)) for i in micro.items()]
        assert len(lengths) * max(lengths) <= budget or len(micro.ids) == 1
        assert micro.loss.denominators == batch().loss.denominators
        assert micro.loss.mask.shape == (len(micro.ids), max(map(len, micro.ids)))


def test_one_large_micro_batch_when_the_budget_allows() -> None:
    assert len(list(batch().micro_batch_rows(1000, no_weight))) == 1


def test_several_updates_divide_the_groups() -> None:
    batches = make_batches(
        GROUPS, estimate_rows(GROUPS, GPG.estimator), GPG, temperature=1.0, max_tokens=10, updates=2
    )
    assert [b.loss.denominators.groups for b in batches] == [2, 1]
    assert [b.samples for b in batches] == [("aaaa", "aaaa", "cc", "cc"), ()]


def test_sampled_log_probs_and_advantages_are_at_their_tokens() -> None:
    loss = batch().loss
    assert loss.sampled_logprobs is not None
    assert torch.equal(loss.sampled_logprobs, -loss.mask.double())
    assert loss.advantages[0].tolist() == pytest.approx([2 / 3] * 3)
    assert loss.advantages[1].tolist() == pytest.approx([-1 / 3, 0, 0])


def test_a_reward_that_is_not_finite_is_refused_with_its_sample() -> None:
    with pytest.raises(RewardError, match="cc"):
        estimate_rows([GROUPS[0], group("cc", [float("nan"), 1.0])], GPG.estimator)


def test_each_action_token_has_its_own_advantage_and_inserted_ones_have_none() -> None:
    """Two turns in one row, and two rows a rollout."""
    pieces = (Piece(ids=(1, 2), text=""), Piece(ids=(8, 8), text="", sampled=False))
    long = TrainingRow(prompt=Prompt(ids=(3,)), pieces=(*pieces, Piece(ids=(4,), text="")))
    short = TrainingRow(prompt=Prompt(ids=(3,)), pieces=pieces[:1])
    one, other = (
        replace(r, rows=rows)
        for r, rows in zip(GROUPS[1].rollouts, ((long, short), (short,)), strict=True)
    )
    step = [replace(GROUPS[1], rollouts=(one, other))]
    advantages = [[[np.array([0.5, -1.0, 2.0]), np.array([3.0, 4.0])], [np.array([0.0, -2.0])]]]
    loss = make_batch(step, advantages, GPG, temperature=1.0, max_tokens=10).loss
    assert loss.advantages.tolist() == [
        [0.5, -1.0, 0.0, 0.0, 2.0],
        [3.0, 4.0, 0.0, 0.0, 0.0],
        [0.0, -2.0, 0.0, 0.0, 0.0],
    ]
    assert loss.rollout.tolist() == [0, 0, 1]
    assert rollout_means(advantages) == [[1.7, -1.0]]


def test_a_mean_of_equal_advantages_is_exact() -> None:
    third = np.full(7, 1 / 3)
    assert rollout_means([[[third[:3], third[3:]], [third[:0]], []]]) == [[1 / 3, 0.0, 0.0]]
