"""Samples sharded over ranks: every rank has the groups that a single process would have, and decides as it would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.thread_ranks import run_thread_ranks
from vlrft.distributed.ranks import Ranks
from vlrft.distributed.sharding import gather_groups, shard_by_size
from vlrft.schema import DataError, Group, Sample
from vlrft.selection.collect import collect
from vlrft.selection.group_filters import Accumulate, DynamicSampling, Keep, KeepAll
from vlrft.selection.prompt_sampler import PromptSampler
from vlrft.testing.small_policies import group, noise_image, sample

Rewards = Callable[[str], list[float]]


def play_shard(
    samples: Sequence[Sample], rewards: Rewards, ranks: Ranks, sizes: Sequence[float]
) -> list[Group]:
    """The groups of all samples on this rank, which plays its shard of them."""
    shards = shard_by_size(sizes, ranks.size)
    names = [samples[i].id for i in shards[ranks.rank]]
    played = [group(name, rewards(name)) for name in names]
    return gather_groups(played, samples, shards, ranks)


def plain(groups: Sequence[Group]) -> list[tuple[Any, ...]]:
    return [(g.sample.id, g.rewards, [r.rows[0].pieces for r in g.rollouts]) for g in groups]


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 3),
    st.lists(st.booleans(), min_size=20, max_size=20),
    st.integers(1, 4),
    st.sampled_from([KeepAll(), DynamicSampling(max_attempts=1), DynamicSampling(max_attempts=5)])
    | st.builds(Accumulate, share=st.floats(0.1, 1.0), max_attempts=st.integers(1, 5)),
)
def test_a_step_is_collected_as_by_a_single_process(
    size: int, mixed: list[bool], prompts: int, keep: Keep
) -> None:
    def step(ranks: Ranks) -> tuple[int, list[tuple[Any, ...]]]:
        sampler = PromptSampler([sample(f"s{k}") for k in range(20)], seed=0)

        def play(samples: Sequence[Sample], attempt: int) -> list[Group]:
            def rewards(name: str) -> list[float]:
                return [0.0, float(mixed[int(name[1:])])]

            return play_shard(samples, rewards, ranks, [1.0] * len(samples))

        collected = collect(sampler, play, keep, prompts)
        return collected.attempts, plain(collected.groups)

    (alone,) = run_thread_ranks(1, step)
    assert run_thread_ranks(size, step) == [alone] * size


def test_prompts_and_images_stay_where_they_were_played() -> None:
    samples = [replace(sample(n), images=(noise_image(28, 28),)) for n in "abcde"]
    sizes = [1.0, 5.0, 1.0, 1.0, 1.5]

    def play(ranks: Ranks) -> list[Group]:
        return play_shard(samples, lambda name: [1.0], ranks, sizes)

    for rank, groups in enumerate(run_thread_ranks(2, play)):
        assert [g.rank for g in groups] == [1, 0, 1, 1, 1]
        for one, sampled in zip(groups, samples, strict=True):
            played_here = one.rank == rank
            assert bool(one.rollouts[0].rows[0].prompt.ids) == played_here
            if not played_here:
                assert one.sample is sampled
                assert one.rollouts[0].sample is sampled


@given(st.lists(st.floats(0, 1e4), max_size=40), st.integers(1, 6))
def test_every_item_is_in_one_shard_and_no_shard_is_much_larger_than_the_mean(
    sizes: list[float], ranks: int
) -> None:
    shards = shard_by_size(sizes, ranks)
    assert sorted(index for shard in shards for index in shard) == list(range(len(sizes)))
    most = max(sum(sizes[k] for k in shard) for shard in shards)
    assert most <= sum(sizes) / ranks + max(sizes, default=0.0) + 1e-6


def test_equal_items_are_assigned_in_turn() -> None:
    assert shard_by_size([0.0] * 5, 2) == [[0, 2, 4], [1, 3]]


def test_ranks_whose_data_differ_are_refused() -> None:
    def play(ranks: Ranks) -> str:
        samples = [sample(f"{n}{ranks.rank}") for n in "ab"]
        with pytest.raises(DataError) as e:
            play_shard(samples, lambda name: [1.0], ranks, [1.0, 1.0])
        return str(e.value)

    message = "rank 0 has sample a0 where this rank has a1; give all ranks the same data in the same order"
    assert run_thread_ranks(2, play)[1] == message
