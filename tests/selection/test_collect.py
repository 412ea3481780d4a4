"""Groups of a step, and the prompts that they come from."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from vlrft.schema import DataError, Group, Sample
from vlrft.selection.collect import collect
from vlrft.selection.group_filters import Accumulate, DynamicSampling, KeepAll
from vlrft.selection.prompt_sampler import PromptSampler
from vlrft.selection.prompt_state import PromptStates
from vlrft.testing.small_policies import group, sample

MIXED, FLAT = [0.0, 1.0], [1.0, 1.0]


class Script:
    """Plays samples: the first `valid[k]` groups of attempt k are valid."""

    def __init__(self, valid: Sequence[int]) -> None:
        self.valid = valid
        self.played: list[str] = []

    def __call__(self, samples: Sequence[Sample], attempt: int) -> list[Group]:
        self.played += [s.id for s in samples]
        mixed = self.valid[attempt]
        return [group(s.id, MIXED if i < mixed else FLAT) for i, s in enumerate(samples)]


def prompts(n: int = 100) -> PromptSampler:
    return PromptSampler([sample(f"s{i}") for i in range(n)], seed=0)


def test_one_attempt_is_enough_for_keep_all() -> None:
    script = Script([0])
    collected = collect(prompts(), script, KeepAll(), 5)
    assert (len(collected.groups), collected.attempts, collected.valid_share) == (5, 1, 0.0)


def test_accumulation_stops_at_the_share_and_trains_valid_groups_first() -> None:
    script = Script([2, 3, 10])
    collected = collect(prompts(), script, Accumulate(share=0.5), 10)
    assert collected.attempts == 2
    assert [g.rewards == tuple(MIXED) for g in collected.groups] == [True] * 5 + [False] * 5
    assert len(set(script.played)) == 20  # new prompts at each attempt
    assert collected.valid_share == 5 / 20


def test_accumulation_keeps_no_more_groups_than_the_step_needs() -> None:
    collected = collect(prompts(), Script([5, 9]), Accumulate(share=0.9), 10)
    assert len(collected.groups) == 10
    assert all(g.rewards == tuple(MIXED) for g in collected.groups)


def test_a_share_that_rounds_up_asks_for_no_attempt_more() -> None:
    assert 0.55 * 100 > 55
    assert Accumulate(share=0.55).enough(55, 100)
    assert not Accumulate(share=0.55).enough(54, 100)


def test_accumulation_ends_at_the_limit_with_the_groups_that_there_are() -> None:
    collected = collect(prompts(), Script([0] * 20), Accumulate(), 4)
    assert (collected.attempts, len(collected.groups)) == (20, 4)
    collected = collect(prompts(), Script([0, 1, 0]), Accumulate(max_attempts=3), 4)
    assert [g.rewards == tuple(MIXED) for g in collected.groups] == [
        True,
        False,
        False,
        False,
    ]


def test_an_epoch_draws_each_prompt_once_and_the_next_in_another_order() -> None:
    sampler = prompts(10)
    first, second = ([s.id for s in sampler.draw(10)] for _ in range(2))
    assert sorted(first) == sorted(second) == sorted(f"s{i}" for i in range(10))
    assert first != second
    assert sampler.epoch == 2.0


def test_a_resumed_sampler_continues_where_it_stopped() -> None:
    one, other = prompts(7), prompts(7)
    one.draw(5)
    other.load_state_dict(one.state_dict())
    assert [s.id for s in one.draw(9)] == [s.id for s in other.draw(9)]


def test_no_samples_is_an_error() -> None:
    with pytest.raises(DataError, match="no samples"):
        PromptSampler([], seed=0)


def test_prompt_states_remember_and_resume() -> None:
    states = PromptStates()
    states.observe([group("a", FLAT), group("b", MIXED)])
    states.observe([group("a", FLAT)])
    assert (states.records["a"].played, states.records["a"].stale) == (2, 2)
    assert (states.records["b"].reward, states.stale_share()) == (0.5, 0.5)
    other = PromptStates()
    other.load_state_dict(states.state_dict())
    assert other.records == states.records


def test_the_expected_length_of_a_rollout_is_that_of_earlier_ones() -> None:
    states = PromptStates()
    assert states.lengths(["a"], default=64) == [64]
    states.observe([group("a", MIXED, [[1], [2, 3, 4]]), group("b", MIXED, [[1] * 4, [1] * 8])])
    assert states.lengths(["b", "a", "new"], default=64) == [6, 2, 4]


def test_dynamic_sampling_refills_until_the_step_has_enough_mixed_groups() -> None:
    collected = collect(prompts(), Script([2, 0, 3]), DynamicSampling(), 4)
    assert collected.attempts == 3
    assert [g.rewards for g in collected.groups] == [tuple(MIXED)] * 4
    assert collect(prompts(), Script([3, 1]), DynamicSampling(), 4).attempts == 2
    scarce = collect(prompts(), Script([1, 0, 1]), DynamicSampling(max_attempts=3), 4)
    assert (scarce.attempts, len(scarce.groups)) == (3, 2)
    assert collect(prompts(), Script([0, 0]), DynamicSampling(max_attempts=2), 4).groups == ()


def test_dynamic_sampling_with_one_attempt_only_drops_groups() -> None:
    collected = collect(prompts(), Script([2]), DynamicSampling(max_attempts=1), 5)
    assert (collected.attempts, len(collected.groups), len(collected.sampled)) == (1, 2, 5)
