"""Systems on a task of several kinds of questions: each kind is paid by a reward of its own, and a system that reads rewards by
their names reads all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.systems.rollouts import LETTERS, step_groups, weights_of_rewards, with_rewards
from tests.systems.row import LONGEST
from vlrft.advantages.rows import estimate_step
from vlrft.config.load import load_config
from vlrft.config.systems import all_systems
from vlrft.schema import Group
from vlrft.trainer.stage_settings import find_choices

DIGITS = [s.id for s in all_systems().values() if s.runs and s.base == "quickstart"]


def of_other_kind(group: Group) -> Group:
    """The same group as one of questions that `choice` pays, where `count` paid."""
    rollouts = tuple(
        replace(r, scores={**r.scores, "count": None, "choice": r.scores["count"]})
        for r in group.rollouts
    )
    return replace(group, rollouts=rollouts)


@pytest.mark.parametrize("number", DIGITS)
def test_questions_of_both_kinds_are_paid_alike(number: int) -> None:
    config = load_config(f"system:{number}")
    weights = weights_of_rewards(config)
    estimator = find_choices(config)[-1][0].at(0.0).estimator
    groups = with_rewards(step_groups(LETTERS, 0), weights)

    def tokens(of: Sequence[Group]) -> np.ndarray:
        known = {"choice": 1.0, **weights}
        rows = estimate_step(of, estimator, weights=known, max_tokens=LONGEST).rows
        return np.concatenate([row for group in rows for rollout in group for row in rollout])

    counted = tokens(groups)
    assert counted.any()
    np.testing.assert_allclose(tokens(list(map(of_other_kind, groups))), counted, atol=1e-12)


@pytest.mark.parametrize("number", [71, 186])
def test_a_method_for_rewards_of_0_and_1_is_not_paid_for_the_form(number: int) -> None:
    rewards = load_config(f"system:{number}").stages[-1].task.rewards
    assert rewards is not None
    assert {name: reward.weight for name, reward in rewards.items()} == {"choice": 1, "count": 1}
