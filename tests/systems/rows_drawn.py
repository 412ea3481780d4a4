"""Rows whose own part is what is drawn, stored or selected: small cases by hand, and each row with a mistake."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from tests.systems.mutant import Mutant
from tests.systems.row import Row
from tests.systems.rows_paid import thought
from tests.systems.rows_weighed import assert_every_token
from tests.systems.wrong_parts import OneChance, WithoutFailed, WithoutSmoothing
from vlrft.memory.admission import batch_requests
from vlrft.schema import Group
from vlrft.selection.prompt_sampler import PromptSampler
from vlrft.selection.prompt_state import PromptRecord, PromptStates
from vlrft.selection.prompt_strategies import PromptStrategy
from vlrft.selection.replay import ReplayStore
from vlrft.selection.rollout_filters import select_and_estimate
from vlrft.testing.small_policies import group, sample


def assert_portions(row: Row) -> None:
    """A group has 64 rollouts, and of all groups at most 128 are sampled at once."""
    rollout = row.stage.rollout
    batches = batch_requests(
        [20] * 8,
        [rollout.group_size] * 8,
        steps=rollout.max_tokens,
        max_rows=rollout.max_rows,
        max_cache_tokens=rollout.max_cache_tokens,
    )
    at_once = [sum(count for _, count in batch) for batch in batches]
    assert sum(at_once) == 64 * 8
    assert max(at_once) <= 128


def assert_cold_start_rejection_then_reinforcement(row: Row) -> None:
    """Gold answers first, then right answers alone, then right and wrong ones."""
    assert [a.answers for a in row.algorithms] == ["gold", "sampled", "sampled"]
    (asked,) = row.table(("choice", "B"))
    signs = [
        _signs(stage, group("q", stage.paid(asked, *map(thought, "BABA"))))
        for stage in _stages(row)[1:]
    ]
    assert signs == [[1, 1], [1, -1, 1, -1]]


def assert_three_stages(row: Row) -> None:
    """Gold answers, then all rollouts of a group, then its best against its worst."""
    assert [a.answers for a in row.algorithms] == ["gold", "sampled", "sampled"]
    played = group("q", [1.0, 0.6, 0.4, 0.0])
    signs = [_signs(stage, played) for stage in _stages(row)[1:]]
    assert signs == [[1, 1, -1, -1], [1, 0, 0, -1]]


def _stages(row: Row) -> list[Row]:
    """The row with each of its stages as the last one."""
    stages = row.config.stages
    return [
        replace(row, config=replace(row.config, stages=stages[: k + 1])) for k in range(len(stages))
    ]


def _signs(row: Row, played: Group) -> list[int]:
    """Of the advantages of the rollouts that the last stage trains on."""
    _, (rows,) = select_and_estimate([played], row.algorithm.select, row.advantages)
    values = [float(of_row[0]) for of_rollout in rows for of_row in of_rollout]
    return [(v > 1e-9) - (v < -1e-9) for v in values]


def assert_pairs(row: Row) -> None:
    """Two rollouts a group, +-1/sqrt(2) where their rewards differ, and as many rollouts a step as with groups of 8."""
    stage = row.stage
    assert stage.rollout.group_size == 2
    assert stage.rollout.group_size * stage.prompts_per_step == 8 * 64
    (rows,) = row.advantages([group("q", [1.0, 0.0])])
    half = 0.5 / (math.sqrt(0.5) + 1e-6)
    assert_every_token(rows, [half, -half])


def assert_widest_replay(row: Row) -> None:
    """Eight stored rollouts whose rewards differ most join those of the next visit, of sixteen that are kept."""
    assert row.algorithm.replay is not None
    store = ReplayStore(row.algorithm.replay)
    store.mix([group("a", [0.7, 0.7, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0] + [0.5] * 8)])
    (again,) = store.mix([group("a", [0.25])])
    assert sorted(again.rewards[1:]) == [0.0] * 4 + [1.0] * 4


def assert_gold_where_all_fail(row: Row) -> None:
    """The gold answer takes the place of one of four wrong rollouts, with (G-1)/sqrt(G); other groups stay as they are."""
    rule = row.algorithm.inject
    assert rule is not None
    wrong, mixed = group("q", [0.0] * 4), group("r", [1.0, 0.0])
    assert not rule.wants(mixed)
    assert rule.wants(wrong)
    gold = replace(wrong.rollouts[0], reward=1.0, origin="injected")
    together = rule.add(wrong, gold)
    (rows,) = row.advantages([together])
    values = [float(of_row[0]) for of_rollout in rows for of_row in of_rollout]
    assert values == pytest.approx([-0.5, -0.5, -0.5, 1.5], abs=1e-5)


def assert_half_by_variance(row: Row) -> None:
    """Half of a draw are prompts whose rewards differ or that are new, half the next of the epoch."""
    states = PromptStates()
    states.observe([group(f"p{i}", (1.0, 1.0)) for i in range(18)] + [group("p18", (0.0, 1.0))])
    samples = [sample(f"p{i}") for i in range(20)]
    sampler = PromptSampler(samples, 0, row.strategy, states)
    for _ in range(4):
        assert {s.id for s in sampler.draw(4)[:2]} == {"p18", "p19"}
    assert sampler.drawn == 2 * 4


def assert_solved_are_skipped(row: Row) -> None:
    """A prompt that was all right is skipped; one that was all wrong stays."""
    solved, failed = (PromptRecord(played=1, reward=r, stale=1) for r in (1.1, 0.0))
    mixed = PromptRecord(played=1, reward=0.6)
    assert [row.strategy.skip(record, 0.5) for record in (solved, failed, mixed)] == [
        True,
        False,
        False,
    ]


def assert_chance_falls(row: Row) -> None:
    """After z groups of equal rewards a prompt is played with the chance one half to the z."""
    for times in (1, 2, 3):
        flat = PromptRecord(played=times, reward=1.0, stale=times)
        chances = (0.5**times - 0.01, 0.5**times + 0.01)
        assert [row.strategy.skip(flat, chance) for chance in chances] == [False, True]


def assert_weights_by_success(row: Row) -> None:
    """e to the power of sqrt(p (1-p)) / tau, p = (s+1)/(n+2), tau = 100 (s+1)."""
    record = PromptRecord(played=1, seen=8, total=2.0)
    assert row.strategy.weighted_share() == 1.0
    weight = math.exp(math.sqrt(0.3 * 0.7) / (100 * 3))
    assert row.strategy.weight(record) == pytest.approx(weight, rel=1e-12)


def _drawn_by(strategy: PromptStrategy, row: Row) -> Row:
    return replace(row, strategy=strategy)


ROWS: Mapping[int, Mutant] = {
    1: Mutant(
        assert_portions,
        "large groups without portions",
        {"config": {"rollout": {"group_size": 64}}},
    ),
    23: Mutant(
        assert_cold_start_rejection_then_reinforcement,
        "a wrong answer in the right form passes the rejection: RAFT's threshold of 1",
        {
            "config": {
                "task": {
                    "options": {"answer": "choice"},
                    "rewards": {"choice": 1.0, "format.r1": 1.0},
                },
                "stages": [{"algorithm": a, "steps": 100} for a in ("sft", "raft", "grpo")],
            }
        },
    ),
    27: Mutant(
        assert_half_by_variance,
        "the whole draw by variance",
        {"stage": {"prompts": {"name": "variance_aware", "share": 1.0}}},
    ),
    86: Mutant(
        assert_pairs,
        "rewards are not divided by the deviation of the pair: +-1/2 in place of +-1/sqrt(2)",
        {
            "config": {
                "rollout": {"group_size": 2},
                "algorithm": {"name": "grpo", "advantage": "centred"},
            }
        },
    ),
    91: Mutant(
        assert_widest_replay,
        "the latest rollouts in place of those whose rewards differ most",
        {
            "config": {
                "algorithm": {"name": "grpo", "replay": {"name": "fifo", "add": 8, "capacity": 16}}
            }
        },
    ),
    95: Mutant(
        assert_gold_where_all_fail,
        "a gold answer in every group",
        {"config": {"algorithm": {"name": "gspo", "inject": {"name": "gold", "when": "always"}}}},
    ),
    139: Mutant(
        assert_solved_are_skipped,
        "prompts that were all wrong are skipped, too",
        change=partial(_drawn_by, WithoutFailed()),
    ),
    167: Mutant(
        assert_three_stages,
        "preferences before GRPO",
        {
            "config": {
                "stages": [
                    {"algorithm": a, "steps": 50, "prompts_per_step": 48}
                    for a in ("sft", "dpo", "grpo")
                ]
            }
        },
    ),
    173: Mutant(
        assert_chance_falls,
        "the same chance however often its groups were flat",
        change=partial(_drawn_by, OneChance()),
    ),
    186: Mutant(
        assert_weights_by_success,
        "p = s/n, without the 1 and the 2 that a prompt begins with",
        change=partial(_drawn_by, WithoutSmoothing()),
    ),
}
"""Row -> its check, and the row with a mistake."""
