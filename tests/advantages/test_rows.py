"""Which rollouts a step learns from, and that each keeps its own advantage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.policies import group
from vlrft.advantages.rows import advantages_of, lesson, rollout_means
from vlrft.algorithms import ALGORITHMS
from vlrft.selection.rollout_filters import Cppo, Pods, Positives, Selector

GROUPS = [group("a", [0.0, 0.4, 1.0, 0.6]), group("b", [0.0, 0.0, 0.2, 0.0])]


def taught(select: Selector | None) -> tuple[list[tuple[float, ...]], list[list[float]]]:
    """Rewards and advantages of what stays."""
    algorithm = replace(ALGORITHMS["gpg"], select=select)
    groups, found = lesson(GROUPS, algorithm, lambda own: advantages_of(own, algorithm))
    return [g.rewards for g in groups], rollout_means(found)


def test_everything_stays_without_a_selector() -> None:
    rewards, advantages = taught(None)
    assert rewards == [g.rewards for g in GROUPS]
    assert advantages[0] == pytest.approx([-0.5, -0.1, 0.5, 0.1])


def test_a_pruned_group_keeps_the_advantages_of_the_whole_one() -> None:
    rewards, advantages = taught(Cppo(share=0.5))
    assert rewards == [(0.0, 1.0), (0.0, 0.2)]
    assert advantages[0] == pytest.approx([-0.5, 0.5])
    assert advantages[1] == pytest.approx([-0.05, 0.15])


def test_a_group_selected_first_is_measured_by_what_stays() -> None:
    rewards, advantages = taught(Pods(keep=2))
    assert rewards == [(0.0, 1.0), (0.2, 0.0)]  # of equal ones the later
    assert advantages[1] == pytest.approx([0.1, -0.1])


def test_a_group_that_loses_all_goes() -> None:
    rewards, advantages = taught(Positives(threshold=0.5))
    assert rewards == [(1.0, 0.6)]
    assert len(advantages) == 1
