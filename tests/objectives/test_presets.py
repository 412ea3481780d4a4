"""Each algorithm on one group, by hand: its advantage, its mean and its clip, as its authors' code has them.

Answers of 1, 2 and 3 tokens with rewards 1, 0, 0: μ = ⅓, unbiased σ = √⅓. On-policy, so that every ratio is 1.
"""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from tests.objectives.reference import Case
from tests.objectives.rows import step

LENGTHS = (1, 2, 3)
ROWS = [[-0.7] * n for n in LENGTHS]
CASE = Case(ROWS, [1.0, 0.0, 0.0], [0, 0, 0], ROWS, ROWS)
NO_KL: dict[str, Any] = {"regularize": {"kl": 0.0}}
LONGEST: dict[str, Any] = {"extras": {"length": 10}}  # DAPO's penalty begins above 8 tokens
GREEDY: dict[str, Any] = {"extras": {"greedy_rewards": [0.5, 0.5, 0.5]}}
STANDARD = (2 / 3 * 3**0.5, -1 / 3 * 3**0.5, -1 / 3 * 3**0.5)  # 1.155, −0.577, −0.577
CENTRED = (2 / 3, -1 / 3, -1 / 3)
WHITE = (5**0.5, -0.2 * 5**0.5, -0.2 * 5**0.5)  # over 6 tokens: mean −1/6, variance 5/36
BY_ANSWER = tuple(1 / (3 * n) for n in LENGTHS)  # a mean over answers of means over tokens
BY_TOKEN = (1 / 6,) * 3

# algorithm: settings, advantage of each answer, weight of each of its tokens
TABLE: dict[str, tuple[dict[str, Any], tuple[float, ...], tuple[float, ...]]] = {
    "grpo": (NO_KL, STANDARD, BY_ANSWER),
    "dr_grpo": (LONGEST, CENTRED, (1 / 30,) * 3),  # 3 answers of at most 10 tokens
    "dapo": (LONGEST, STANDARD, BY_TOKEN),
    "gspo": ({}, STANDARD, BY_ANSWER),
    "gmpo": ({}, STANDARD, BY_ANSWER),
    "gpg": ({}, CENTRED, BY_TOKEN),  # one group, which is valid: α = 1
    "gpg_vl_released": ({}, CENTRED, BY_ANSWER),
    "gpg_rs_released": ({}, STANDARD, BY_TOKEN),
    "gvpo": ({}, CENTRED, (0.1 / 2,) * 3),  # β / (G − 1)
    "rloo": ({}, (1.0, -0.5, -0.5), BY_TOKEN),
    "remax": (GREEDY, (0.5, -0.5, -0.5), BY_TOKEN),
    "reinforce_pp": ({}, WHITE, BY_TOKEN),
    "reinforce_rej": ({}, (1.0, 0.0, 0.0), BY_ANSWER),
    "cw_grpo": (NO_KL, STANDARD, BY_ANSWER),  # log-probs that are all equal do not covary: w = 1
}


@pytest.mark.parametrize("name", TABLE)
def test_the_gradient_of_one_group_by_hand(name: str) -> None:
    settings, advantages, weights = TABLE[name]
    result, gradient = step(name, CASE, **settings)
    assert result.advantages[:, 0].tolist() == pytest.approx(advantages, rel=1e-5)
    for row, advantage, weight, length in zip(gradient, advantages, weights, LENGTHS, strict=True):
        assert row[:length].tolist() == pytest.approx([-advantage * weight] * length, rel=1e-5)
        assert row[length:].tolist() == [0.0] * (3 - length)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("grpo", 0.8, 1.2),
        ("dr_grpo", 0.8, 1.2),
        ("dapo", 0.8, 1.28),
        ("rloo", 0.8, 1.2),
        ("reinforce_pp", 0.8, 1.2),
    ],
)
def test_the_ratio_has_a_gradient_up_to_the_bounds_of_its_clip(
    name: str, low: float, high: float
) -> None:
    """The ratio of every token is ρ: the better answer is held from above, the worse ones from below."""
    settings, *_ = TABLE[name]
    for ratio, held in (
        (high - 0.01, ()),
        (high + 0.01, (0,)),
        (low + 0.01, ()),
        (low - 0.01, (1, 2)),
    ):
        old = [[x - log(ratio) for x in row] for row in ROWS]
        _, gradient = step(name, Case(ROWS, CASE.rewards, CASE.group, old, ROWS), **settings)
        still = tuple(b for b in range(3) if gradient[b, 0] == 0)
        assert still == held, (name, ratio)
