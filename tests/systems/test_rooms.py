"""Systems whose base is a grid of rooms, on the scores and the rewards that its environment gives: none of its scores has a weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.systems.rollouts import LETTERS, step_groups
from tests.systems.row import LONGEST, Row
from vlrft.advantages.rows import RowAdvantages, estimate_step
from vlrft.schema import Group


def episodes(reward: Sequence[float], scores: Sequence[Mapping[str, float]]) -> Group:
    """A group of episodes of two turns, with these rewards and scores."""
    group = step_groups(LETTERS, 0, turns=2)[0]
    said = next(r for r in group.rollouts if r.tokens)
    pairs = zip(reward, scores, strict=True)
    rollouts = tuple(replace(said, reward=paid, scores=dict(own)) for paid, own in pairs)
    return replace(group, rollouts=rollouts)


def advantages(row: Row, group: Group) -> RowAdvantages:
    """Without weights, as a task of an environment alone."""
    return estimate_step([group], row.algorithm.estimator, max_tokens=LONGEST).rows[0]


def test_the_first_turn_of_mt_grpo_is_paid_for_a_score_of_the_environment(tmp_path: Path) -> None:
    valid = [{"valid": v} for v in (1.0, 0.5, 0.5, 1.0)]
    won = [1.0, 1.0, 0.0, 0.0]
    first, later = zip(*advantages(Row.of(189, tmp_path), episodes(won, valid)), strict=True)
    extra = [float(a[0] - b[0]) for a, b in zip(first, later, strict=True)]
    np.testing.assert_allclose(extra, np.array([1, -1, -1, 1]) * np.sqrt(3) / 2, atol=1e-5)


@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_an_episode_that_is_won_after_an_invalid_turn_says_how_few_steps_suffice(
    tmp_path: Path, penalty: float
) -> None:
    steps = [{"steps": s} for s in (2.0, 4.0, 4.0, 4.0)]
    won = [1.0 - penalty, 1.0 - penalty, 0.0, 0.0]
    rows = advantages(Row.of(131, tmp_path), episodes(won, steps))
    quick, slow = (float(turns[0][0]) for turns in rows[:2])
    assert quick > slow + 0.05
