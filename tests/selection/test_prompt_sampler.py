"""The draws of each prompt strategy, and a sampler that resumes where it stopped."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import overload

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlrft.schema import Sample
from vlrft.schema.errors import ConfigError
from vlrft.selection.prompt_sampler import PromptSampler, count_drawn, find_prompt_strategy
from vlrft.selection.prompt_state import PromptRecord, PromptStates
from vlrft.selection.prompt_strategies import (
    PROMPT_STRATEGIES,
    Greso,
    HistoryResampling,
    VarianceAware,
)
from vlrft.selection.weighted_prompts import Cures, Tracked
from vlrft.testing.small_policies import group, sample

SAMPLES = [sample(f"p{i}") for i in range(20)]


def remembered(**rewards: tuple[float, ...]) -> PromptStates:
    states = PromptStates()
    states.observe([group(name, group_rewards) for name, group_rewards in rewards.items()])
    return states


@pytest.mark.parametrize("name", PROMPT_STRATEGIES)
def test_a_sampler_resumes_where_it_stopped(name: str) -> None:
    def new() -> PromptSampler:
        states = remembered(p0=(1.0, 1.0), p1=(0.0, 1.0), p2=(0.0, 0.0))
        return PromptSampler(SAMPLES, 3, find_prompt_strategy(name, "prompts"), states)

    whole = new()
    first = [s.id for s in whole.draw(7)]
    state = whole.state_dict()
    rest = [s.id for k in (7, 9) for s in whole.draw(k)]
    resumed = new()
    resumed.load_state_dict(state)
    assert [s.id for k in (7, 9) for s in resumed.draw(k)] == rest
    assert [s.id for s in new().draw(7)] == first


def test_variance_aware_draws_half_by_the_variance_of_rewards() -> None:
    states = remembered(**{f"p{i}": (1.0, 1.0) for i in range(18)}, p18=(0.0, 1.0))
    sampler = PromptSampler(SAMPLES, 0, VarianceAware(share=0.5), states)
    for _ in range(5):
        drawn = [s.id for s in sampler.draw(4)]
        assert set(drawn[:2]) == {"p18", "p19"}  # mixed, and not met yet
    assert states.records["p18"].variance == 0.25


def test_a_prompt_that_was_not_played_is_as_likely_as_tracked_says() -> None:
    rule, states = Tracked(), PromptStates()
    states.note([s.id for s in SAMPLES[1:]], [{"alpha": 9.0, "beta": 0.0}] * 19)  # weights of 0.05
    sampler = PromptSampler(SAMPLES, 0, rule, states)
    firsts = Counter(sampler.draw(1)[0].id for _ in range(2000))
    expected = rule.weight(PromptRecord()) / (rule.weight(PromptRecord()) + 19 * 0.05)  # 0.55 / 1.5
    assert abs(firsts["p0"] / 2000 - expected) < 0.03


def test_history_skips_solved_prompts_and_draws_failed_ones_again() -> None:
    states = remembered(**{f"p{i}": (1.1, 1.1) for i in range(10)}, p10=(0.0, 0.0), p11=(1.1, 0.0))
    sampler = PromptSampler(SAMPLES, 0, HistoryResampling(solved=1.1), states)
    assert {s.id for s in sampler.draw(10)} == {f"p{i}" for i in range(10, 20)}
    assert sampler.epoch == 1.0
    mixed = PromptRecord(played=1, reward=0.6, stale=0)
    assert not HistoryResampling(solved=0.5).skip(mixed, 0.0)


def test_prompts_are_drawn_even_when_all_are_solved() -> None:
    states = remembered(**{f"p{i}": (1.0, 1.0) for i in range(20)})
    sampler = PromptSampler(SAMPLES, 0, HistoryResampling(), states)
    assert len(sampler.draw(3)) == 3


def test_greso_skips_stale_prompts_more_and_more_often() -> None:
    rule = Greso(explore_solved=0.5, explore_failed=0.25)
    solved = PromptRecord(played=2, reward=1.0, stale=2)
    assert [rule.skip(solved, c) for c in (0.24, 0.26)] == [False, True]
    failed = PromptRecord(played=2, reward=0.0, stale=2)
    assert [rule.skip(failed, c) for c in (0.06, 0.07)] == [False, True]
    assert not rule.skip(PromptRecord(played=1, reward=0.5, stale=0), 0.999)


def test_greso_skips_with_the_probabilities_of_its_rule() -> None:
    states = PromptStates()
    for _ in range(2):
        states.observe([group("p0", (1.0, 1.0))])
    sampler = PromptSampler(SAMPLES, 0, Greso(explore_solved=0.5, rate=0.0), states)
    counts = Counter(s.id for _ in range(200) for s in sampler.draw(20))
    assert 0.17 < counts["p0"] / counts["p1"] < 0.33


class Composed(Sequence[Sample]):
    """Samples that are made on access; counts how often."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(SAMPLES)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        assert isinstance(index, int)
        self.asked[SAMPLES[index].id] += 1
        return SAMPLES[index]


@pytest.mark.parametrize("name", PROMPT_STRATEGIES)
def test_a_sample_is_made_once_per_draw_and_once_for_its_id(name: str) -> None:
    samples, states = Composed(), remembered(**{f"p{i}": (1.0, 1.0) for i in range(10)})
    sampler = PromptSampler(samples, 0, find_prompt_strategy(name, "prompts"), states)
    drawn = Counter(s.id for _ in range(30) for s in sampler.draw(4))
    for one in SAMPLES:
        assert drawn[one.id] <= samples.asked[one.id] <= drawn[one.id] + 1


def play(states: PromptStates, drawn: Sequence[Sample], turn: int) -> list[str]:
    """Some prompts are always solved, some always failed, some vary."""
    for one in drawn:
        k = int(one.id[1:])
        states.observe([group(one.id, ((1.0, 1.0), (0.0, 0.0), (0.0, float(turn % 2)))[k % 3])])
    return [s.id for s in drawn]


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(PROMPT_STRATEGIES)),
    st.integers(0, 2**32),
    st.lists(st.integers(1, 15), min_size=2, max_size=12),
    st.data(),
)
def test_a_run_that_is_stopped_anywhere_resumes_with_the_same_draws(
    name: str, seed: int, sizes: list[int], data: st.DataObject
) -> None:
    stop = data.draw(st.integers(1, len(sizes) - 1))
    states = PromptStates()
    sampler = PromptSampler(SAMPLES, seed, find_prompt_strategy(name, "prompts"), states)
    saved: tuple[dict[str, object], dict[str, dict[str, float]]] = {}, {}
    whole: list[list[str]] = []
    for turn, size in enumerate(sizes):
        if turn == stop:
            saved = sampler.state_dict(), states.state_dict()
        whole.append(play(states, sampler.draw(size), turn))
    states = PromptStates()
    resumed = PromptSampler(SAMPLES, 0, find_prompt_strategy(name, "prompts"), states)
    resumed.load_state_dict(saved[0])
    states.load_state_dict(saved[1])
    rest = [play(states, resumed.draw(n), k) for k, n in enumerate(sizes[stop:], stop)]
    assert rest == whole[stop:]


@settings(deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_uniform_draws_every_prompt_before_any_is_drawn_again(seed: int, sizes: list[int]) -> None:
    sampler = PromptSampler(SAMPLES, seed)
    drawn = [s.id for n in sizes for s in sampler.draw(n)]
    for start in range(0, len(drawn), 20):
        assert len(set(drawn[start : start + 20])) == len(drawn[start : start + 20])


def test_greso_lowers_the_probability_of_groups_above_their_share() -> None:
    rule = Greso(explore_solved=0.5, explore_failed=0.5, stale=0.375, rate=0.1)
    right, wrong = (PromptRecord(played=1, reward=r, stale=1) for r in (1.0, 0.0))
    mixed = PromptRecord(played=1, reward=0.5)

    def chances(*records: PromptRecord) -> list[float]:
        now = rule.adapt(records)
        return [round(p, 9) for p in (now.explore_solved, now.explore_failed)]

    assert chances(right, *[mixed] * 7) == [0.4, 0.6]  # an eighth may be right, and is met
    assert chances(*[wrong] * 2, *[mixed] * 6) == [0.6, 0.4]  # a quarter may be wrong
    assert chances(wrong, *[mixed] * 7) == [0.6, 0.6]
    for _ in range(20):
        rule = rule.adapt([right, wrong])
    assert (rule.explore_solved, rule.explore_failed) == (0.05, 0.05)
    wide = Greso(explore_solved=1.0, explore_failed=0.01)
    assert wide.adapt([mixed]).explore_solved == 1.0
    assert wide.adapt([wrong]).explore_failed == 0.01
    still = Greso(rate=0.0)
    assert still.adapt([right, wrong]) == still


def test_greso_adapts_to_its_draws_from_the_second_epoch_on() -> None:
    states = PromptStates()
    sampler = PromptSampler(SAMPLES, 0, Greso(rate=0.1), states)
    for _ in range(2):
        states.observe([group(s.id, (1.0, 1.0)) for s in sampler.draw(10)])
    assert sampler.strategy == Greso(rate=0.1)
    sampler.draw(10)
    assert sampler.strategy == Greso(explore_solved=0.4, explore_failed=0.6, rate=0.1)


def test_unknown_names_and_settings_are_reported() -> None:
    with pytest.raises(ConfigError, match="did you mean greso"):
        find_prompt_strategy("gresso", "stages.0.prompts")
    with pytest.raises(ConfigError, match=r"stages\.0\.prompts: needs a `name`; known: uniform,"):
        find_prompt_strategy({"share": 0.5}, "stages.0.prompts")
    with pytest.raises(ConfigError, match=r"stages\.0\.prompts\.share"):
        find_prompt_strategy({"name": "variance_aware", "share": 2}, "stages.0.prompts")


def test_a_strategy_weighs_prompts_by_any_number_of_their_record() -> None:
    """Chi-square over many draws of one prompt, against weights 1 : 3 and the largest for what was not played."""

    class ByReward(VarianceAware):
        def weight(self, record: PromptRecord) -> float:
            return record.reward

    states = remembered(a=(0.25, 0.25), b=(0.75, 0.75))
    three = [sample("a"), sample("b"), sample("c")]
    sampler = PromptSampler(three, 0, ByReward(share=1.0), states)
    counts = Counter(sampler.draw(1)[0].id for _ in range(700))
    expected = {"a": 100.0, "b": 300.0, "c": 300.0}
    chi = sum((counts[k] - e) ** 2 / e for k, e in expected.items())
    assert chi < 9.21  # 1 % level, two degrees of freedom


@pytest.mark.parametrize(
    ("strategy", "record", "weight"),
    [
        (Tracked(), PromptRecord(notes={"alpha": 3.0, "beta": 1.0}), math.sqrt(3 / 16) + 0.05),
        (Tracked(explore=0.0), PromptRecord(), 0.5),
        (Cures(), PromptRecord(seen=8, total=2.0), math.exp(math.sqrt(0.3 * 0.7) * 0.01 / 3)),
        (Cures(sharpness=1.0), PromptRecord(seen=8, total=9.0), math.exp(0.3 / 9)),
    ],
)
def test_weights_of_tracked_prompts(
    strategy: Tracked | Cures, record: PromptRecord, weight: float
) -> None:
    assert strategy.weight(record) == pytest.approx(weight)
    assert strategy.weighted_share() == 1
    assert not strategy.skip(record, 0.0)


@pytest.mark.parametrize("strategy", [Tracked(), VarianceAware(share=0.5), None])
def test_prompts_drawn_by_weight_are_counted_and_survive_a_resume(
    strategy: Tracked | VarianceAware | None,
) -> None:
    sampler = PromptSampler(SAMPLES, 0, strategy)
    for _ in range(3):
        sampler.draw(4)
    state = sampler.state_dict()
    assert count_drawn(state) == 12
    sampler.load_state_dict(state)
    sampler.draw(4)
    assert count_drawn(sampler.state_dict()) == 16
