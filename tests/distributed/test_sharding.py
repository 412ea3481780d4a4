"""Samples dealt over ranks: every rank knows what one process would know, and decides as it would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.policies import group, noise_image, sample
from tests.fakes.thread_ranks import run_thread_ranks
from vlrft.distributed.ranks import Ranks
from vlrft.distributed.sharding import dealt, prompt_size, shares
from vlrft.schema import DataError, Group, Resize, Sample
from vlrft.selection.collect import collect
from vlrft.selection.group_filters import Accumulate, DynamicSampling, Keep, KeepAll
from vlrft.selection.prompt_sampler import PromptSampler


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
def test_a_step_is_collected_as_by_one_process(
    size: int, mixed: list[bool], prompts: int, keep: Keep
) -> None:
    def step(ranks: Ranks) -> tuple[int, list[tuple[Any, ...]]]:
        sampler = PromptSampler([sample(f"s{k}") for k in range(20)], seed=0)

        def play(samples: Sequence[Sample], attempt: int) -> list[Group]:
            def own(places: Sequence[int]) -> list[Group]:
                names = [samples[i].id for i in places]
                return [group(n, [0.0, float(mixed[int(n[1:])])]) for n in names]

            return dealt(samples, own, ranks, [1.0] * len(samples))

        found = collect(sampler, play, keep, prompts)
        return found.attempts, plain(found.groups)

    (alone,) = run_thread_ranks(1, step)
    assert run_thread_ranks(size, step) == [alone] * size


def test_prompts_and_images_stay_where_they_were_played() -> None:
    asked = [replace(sample(n), images=(noise_image(28, 28),)) for n in "abcde"]
    sizes = [1.0, 5.0, 1.0, 1.0, 1.5]

    def play(ranks: Ranks) -> list[Group]:
        return dealt(asked, lambda own: [group(asked[i].id, [1.0]) for i in own], ranks, sizes)

    for rank, found in enumerate(run_thread_ranks(2, play)):
        assert [g.rank for g in found] == [1, 0, 1, 1, 1]
        for place, one in enumerate(found):
            own = one.rank == rank
            assert bool(one.rollouts[0].rows[0].prompt.ids) == own
            if not own:
                assert one.sample is asked[place]
                assert one.rollouts[0].sample is asked[place]


@given(st.lists(st.floats(0, 1e4), max_size=40), st.integers(1, 6))
def test_every_sample_is_dealt_once_and_no_rank_has_much_more_than_its_share(
    sizes: list[float], ranks: int
) -> None:
    found = shares(sizes, ranks)
    assert sorted(place for own in found for place in own) == list(range(len(sizes)))
    most = max(sum(sizes[k] for k in own) for own in found)
    assert most <= sum(sizes) / ranks + max(sizes, default=0.0) + 1e-6


def test_equal_samples_are_dealt_in_turn() -> None:
    assert shares([0.0] * 5, 2) == [[0, 2, 4], [1, 3]]


def test_a_prompts_size_is_that_of_its_text_and_of_its_resized_images() -> None:
    resize = Resize(min_pixels=28 * 28 * 4, max_pixels=28 * 28 * 9)
    asked = replace(
        sample("12345678"),
        images=(noise_image(280, 280), noise_image(28, 28), noise_image(56, 84)),
    )
    assert prompt_size(asked, resize) == 2 + 9 + 4 + 6
    assert prompt_size(asked, None) == 2


def test_ranks_that_have_other_data_are_told() -> None:
    def play(ranks: Ranks) -> str:
        asked = [sample(f"{n}{ranks.rank}") for n in "ab"]
        with pytest.raises(DataError) as e:
            dealt(asked, lambda own: [group(asked[i].id, [1.0]) for i in own], ranks, [1.0, 1.0])
        return str(e.value)

    told = "rank 0 has a0 where this one has a1: give all ranks the same data, in the same order"
    assert run_thread_ranks(2, play)[1] == told
