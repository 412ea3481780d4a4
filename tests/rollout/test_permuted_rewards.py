"""Rewards of a control run: permuted within groups, and among groups of one."""

from __future__ import annotations

from dataclasses import replace

from vlrft.rollout.permute_rewards import permute_rewards, permute_step
from vlrft.rollout.seeds import seed_from
from vlrft.testing.small_policies import group


def seed_of(name: str) -> int:
    return seed_from(7, name)


def test_permuting_keeps_the_rewards_of_a_group_but_not_their_order() -> None:
    one = group("a", [0.0, 0.25, 0.5, 1.0])
    other = permute_rewards(one, seed=3)
    assert sorted(other.rewards) == sorted(one.rewards)
    assert other.rewards != one.rewards
    assert [r.rows for r in other.rollouts] == [r.rows for r in one.rollouts]


def test_what_a_reward_counts_for_a_failed_score_moves_with_it() -> None:
    one = group("a", [0.0, 0.25, 0.5, 1.0])
    one = replace(
        one, rollouts=tuple(replace(r, imputed={"judge": r.reward}) for r in one.rollouts)
    )
    assert [r.imputed["judge"] for r in permute_rewards(one, seed=3).rollouts] == list(
        permute_rewards(one, seed=3).rewards
    )


def test_groups_of_one_exchange_their_rewards() -> None:
    singles = [group(f"s{k}", [k / 8]) for k in range(8)]
    whole = group("g", [0.0, 0.25, 0.5, 1.0])
    out = permute_step([*singles[:3], whole, *singles[3:]], seed_of)
    permuted = [g.rewards[0] for g in out if len(g.rewards) == 1]
    assert sorted(permuted) == [k / 8 for k in range(8)]
    assert permuted != [k / 8 for k in range(8)]
    assert [g.sample.id for g in out] == ["s0", "s1", "s2", "g", "s3", "s4", "s5", "s6", "s7"]
    assert [g.rollouts[0].rows for g in out if len(g.rewards) == 1] == [
        g.rollouts[0].rows for g in singles
    ]


def test_other_groups_keep_their_rewards_whatever_else_is_in_the_step() -> None:
    whole = group("g", [0.0, 0.25, 0.5, 1.0])
    (alone,) = permute_step([whole], seed_of)
    assert sorted(alone.rewards) == sorted(whole.rewards)
    assert permute_step([group("s", [9.0]), whole], seed_of)[1] == alone
