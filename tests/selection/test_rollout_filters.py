"""Which rollouts of a group are trained on, and that each keeps its own advantage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from statistics import pvariance

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlrft.advantages.rows import RowAdvantages, estimate_rows, rollout_means
from vlrft.algorithms import ALGORITHMS, find_algorithm
from vlrft.schema import Group
from vlrft.schema.errors import ConfigError
from vlrft.selection.rollout_filters import (
    SELECTORS,
    Cppo,
    DropTruncated,
    Gfpo,
    Pods,
    Positives,
    Selector,
    select,
    select_and_estimate,
    subset,
)
from vlrft.testing.small_policies import group


def test_cppo_keeps_the_largest_advantages() -> None:
    four = group("a", [0.0, 1.0, 0.5, 0.4])
    assert Cppo(share=0.5).choose(four, [-2.0, 1.9, 0.1, 0.0]) == [0, 1]
    assert Cppo(share=0.5).choose(four, [0.1, -0.1, 0.1, 0.1]) == [0, 1]  # the first of equals
    assert Cppo(share=0.5).choose(four, [0.1, 0.2, -0.5, 0.9]) == [2, 3]  # in order
    assert Cppo(share=0.01).choose(four, [0.0, 0.2, 0.1, 0.0]) == [1]


@pytest.mark.parametrize(
    ("size", "share", "kept"),
    [(5, 0.5, 3), (7, 0.5, 4), (5, 0.3, 2), (8, 0.875, 7), (10, 0.1, 1), (100, 0.55, 55)],
)
def test_cppo_drops_whole_rollouts_only_so_that_the_share_is_rounded_up(
    size: int, share: float, kept: int
) -> None:
    """As the authors' trainer, which drops ⌊(1 − share) · G⌋."""
    advantages = [float(i) for i in range(size)]
    chosen = Cppo(share=share).choose(group("a", [0.0] * size), advantages)
    assert chosen == list(range(size - kept, size))


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0, 1.1]), min_size=1, max_size=9),
    st.integers(1, 9),
)
def test_pods_finds_the_largest_variance_there_is(rewards: list[float], keep: int) -> None:
    picked = Pods(keep=keep).choose(group("a", rewards), ())
    size = min(keep, len(rewards))
    assert len(set(picked)) == len(picked) == size
    assert picked == sorted(picked)
    best = max(pvariance(some) for some in combinations(rewards, size))
    assert pvariance([rewards[i] for i in picked]) == pytest.approx(best, abs=1e-12)


def test_gfpo_keeps_the_short_or_the_efficient() -> None:
    three = group("a", [1.0, 0.0, 1.0], [[1, 2, 3], [1], [1, 2]])
    assert Gfpo(keep=2).choose(three, ()) == [1, 2]
    assert Gfpo(keep=2, by="reward_per_token").choose(three, ()) == [0, 2]


def test_positives_are_those_that_earn_the_threshold() -> None:
    assert Positives(threshold=0.5).choose(group("a", [0.5, 0.49, 1.0]), ()) == [0, 2]


RULES: list[Selector] = [
    Cppo(share=0.4),
    Pods(keep=3),
    Gfpo(keep=3),
    Gfpo(keep=3, by="reward_per_token"),
    Positives(threshold=0.5),
    DropTruncated(),
]


@settings(deadline=None)
@given(
    st.sampled_from(RULES),
    st.lists(
        st.lists(
            st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 4), st.booleans()),
            min_size=1,
            max_size=8,
        ),
        max_size=4,
    ),
)
def test_a_selector_only_takes_away(
    rule: Selector, drawn: list[list[tuple[float, int, bool]]]
) -> None:
    groups = [
        truncated(
            group(f"g{k}", [r for r, _, _ in rows], [[1] * n for _, n, _ in rows]),
            *[i for i, (_, _, cut) in enumerate(rows) if cut],
        )
        for k, rows in enumerate(drawn)
    ]
    advantages = [[r - 0.5 for r in g.rewards] for g in groups]
    picked = select(rule, groups) if rule.before_advantages else select(rule, groups, advantages)
    assert len(picked) == len(groups)
    for whole, kept in zip(groups, picked, strict=True):
        assert kept == sorted(set(kept))
        left = subset(whole, kept)
        assert left.rollouts == tuple(whole.rollouts[i] for i in kept)
        assert left.sample == whole.sample
        if not isinstance(rule, Positives | DropTruncated):
            assert kept  # selectors with a fixed number keep some
    assert picked == [rule.choose(g, a) for g, a in zip(groups, advantages, strict=True)]


def truncated(group: Group, *cut: int) -> Group:
    rollouts = list(group.rollouts)
    for i in cut:
        (row,) = rollouts[i].rows
        piece = replace(row.pieces[0], finish="length")
        rollouts[i] = replace(rollouts[i], rows=(replace(row, pieces=(piece,)),))
    return replace(group, rollouts=tuple(rollouts))


def test_truncated_rollouts_are_dropped_after_advantages_are_estimated() -> None:
    cut = truncated(group("a", [1.0, 0.0, 0.5]), 1)
    assert not DropTruncated.before_advantages
    assert select(DropTruncated(), [cut], [[0.5, -0.5, 0.0]]) == [[0, 2]]
    assert subset(cut, [0, 2]).rewards == (1.0, 0.5)


def test_an_algorithm_takes_a_selector_by_name() -> None:
    method = find_algorithm({"name": "gpg", "select": {"name": "cppo", "share": 0.25}})
    assert method.select == Cppo(share=0.25)
    again = find_algorithm({"name": "gpg", "select": "pods", "keep": "dynamic_sampling"})
    assert again.select == Pods()
    assert again.keep.max_attempts == 10
    assert set(SELECTORS) == {"cppo", "pods", "gfpo", "positives", "drop_truncated"}
    for wrong, message in (
        ({"select": "cpo"}, "algorithm.select: unknown name 'cpo'; did you mean cppo"),
        ({"select": {"share": 0.5}}, "algorithm.select: needs a `name`; known: cppo, "),
        ({"select": {"name": "cppo", "keep": 3}}, "algorithm.select.keep: unknown key"),
        ({"keep": None}, "algorithm.keep: expected a name"),
    ):
        with pytest.raises(ConfigError) as caught:
            find_algorithm({"name": "gpg", **wrong})
        assert message in str(caught.value)


GROUPS = [group("a", [0.0, 0.4, 1.0, 0.6]), group("b", [0.0, 0.0, 0.2, 0.0])]


def rewards_and_advantages(
    selector: Selector | None,
) -> tuple[list[tuple[float, ...]], list[list[float]]]:
    """Of the rollouts of GROUPS that are selected."""
    estimator = ALGORITHMS["gpg"].estimator
    groups, rows = select_and_estimate(GROUPS, selector, lambda g: estimate_rows(g, estimator))
    return [g.rewards for g in groups], rollout_means(rows)


def test_every_rollout_stays_without_a_selector() -> None:
    rewards, advantages = rewards_and_advantages(None)
    assert rewards == [g.rewards for g in GROUPS]
    assert advantages[0] == pytest.approx([-0.5, -0.1, 0.5, 0.1])


def test_a_pruned_group_keeps_the_advantages_of_the_whole_group() -> None:
    rewards, advantages = rewards_and_advantages(Cppo(share=0.5))
    assert rewards == [(0.0, 1.0), (0.0, 0.2)]
    assert advantages[0] == pytest.approx([-0.5, 0.5])
    assert advantages[1] == pytest.approx([-0.05, 0.15])


def test_the_advantages_of_a_group_that_is_selected_first_come_from_what_stays() -> None:
    rewards, advantages = rewards_and_advantages(Pods(keep=2))
    assert rewards == [(0.0, 1.0), (0.2, 0.0)]  # the later one of two that are equal
    assert advantages[1] == pytest.approx([0.1, -0.1])


def test_a_group_without_a_selected_rollout_is_dropped() -> None:
    rewards, advantages = rewards_and_advantages(Positives(threshold=0.5))
    assert rewards == [(1.0, 0.6)]
    assert len(advantages) == 1


def test_a_group_that_is_left_too_small_for_its_comparison_is_dropped() -> None:
    """RLOO compares a rollout with the others of its group, and one alone has none."""

    def estimate(groups: Sequence[Group]) -> list[RowAdvantages]:
        return estimate_rows(groups, ALGORITHMS["rloo"].estimator)

    groups = [group("a", [1.0, 1.0, 0.0, 0.0]), group("b", [1.0, 0.0, 0.0, 0.0])]
    left, rows = select_and_estimate(groups, Positives(), estimate, min_estimated=2)
    assert [g.rewards for g in left] == [(1.0, 1.0)]
    assert rollout_means(rows) == [[0.0, 0.0]]
    # of advantages that come from the whole group, one may be left
    kept, _ = select_and_estimate(groups, Cppo(share=0.25), estimate, min_estimated=2)
    assert [len(g.rollouts) for g in kept] == [1, 1]
    # unless the loss compares rollouts, too
    cut = [truncated(groups[0], 1), truncated(groups[1], 1, 2, 3)]
    kept, rows = select_and_estimate(cut, DropTruncated(), estimate, min_estimated=2, min_trained=2)
    assert [len(g.rollouts) for g in kept] == [3]
    assert [len(r) for r in rows] == [3]
    alone, _ = select_and_estimate(groups, Positives(), lambda g: [[[]]] * len(g), min_trained=2)
    assert [g.rewards for g in alone] == [(1.0, 1.0)]


def test_without_a_rule_no_group_is_too_small() -> None:
    one = [group("a", [1.0])]
    assert (
        select_and_estimate(one, None, lambda g: [[[]]], min_estimated=2, min_trained=2)[0] == one
    )


def test_rules_run_one_after_the_other_and_advantages_are_estimated_between_them() -> None:
    def estimate(groups: Sequence[Group]) -> list[RowAdvantages]:
        seen.append([len(g.rollouts) for g in groups])
        return estimate_rows(groups, ALGORITHMS["grpo"].estimator)

    seen: list[list[int]] = []
    groups = [group("a", [0.0, 1.0, 0.5, 0.4]), group("b", [0.0, 0.0, 0.0])]
    left, rows = select_and_estimate(groups, (Positives(threshold=0.3), Cppo(share=0.5)), estimate)
    assert seen == [[3]]  # of a: 1, 0.5, 0.4; b has none
    assert [list(g.rewards) for g in left] == [[1.0, 0.4]]
    alone = estimate_rows([group("a", [1.0, 0.5, 0.4])], ALGORITHMS["grpo"].estimator)
    assert rollout_means(rows) == [[rollout_means(alone)[0][k] for k in (0, 2)]]
    one, first = select_and_estimate(groups, Cppo(), estimate)
    other, second = select_and_estimate(groups, (Cppo(),), estimate)
    assert [g.rewards for g in one] == [g.rewards for g in other]
    assert rollout_means(first) == rollout_means(second)
