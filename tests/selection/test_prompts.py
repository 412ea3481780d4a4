"""Which prompts come next, and that a sampler goes on where it stopped."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fakes import group, sample
from vlrft.config import ConfigError
from vlrft.selection.prompt_state import PromptRecord, PromptStates
from vlrft.selection.prompts import (
    PREFERENCES,
    Greso,
    HistoryResampling,
    PromptSampler,
    VarianceAware,
    find_preference,
)

SAMPLES = [sample(f"p{i}") for i in range(20)]


def remembered(**rewards: tuple[float, ...]) -> PromptStates:
    states = PromptStates()
    states.observe([group(name, own) for name, own in rewards.items()])
    return states


@pytest.mark.parametrize("name", PREFERENCES)
def test_a_sampler_goes_on_where_it_stopped(name: str) -> None:
    def new() -> PromptSampler:
        states = remembered(p0=(1.0, 1.0), p1=(0.0, 1.0), p2=(0.0, 0.0))
        return PromptSampler(SAMPLES, 3, find_preference(name, "prompts"), states)

    whole = new()
    first = [s.id for s in whole.draw(7)]
    state = whole.state_dict()
    rest = [s.id for k in (7, 9) for s in whole.draw(k)]
    resumed = new()
    resumed.load_state_dict(state)
    assert [s.id for k in (7, 9) for s in resumed.draw(k)] == rest
    assert [s.id for s in new().draw(7)] == first


def test_variance_aware_draws_half_by_what_prompts_still_teach() -> None:
    states = remembered(**{f"p{i}": (1.0, 1.0) for i in range(18)}, p18=(0.0, 1.0))
    sampler = PromptSampler(SAMPLES, 0, VarianceAware(share=0.5), states)
    for _ in range(5):
        drawn = [s.id for s in sampler.draw(4)]
        assert set(drawn[:2]) == {"p18", "p19"}  # mixed, and not met yet
    assert states.records["p18"].variance == 0.25


def test_history_passes_over_what_is_solved_and_comes_back_to_what_is_not() -> None:
    states = remembered(**{f"p{i}": (1.1, 1.1) for i in range(10)}, p10=(0.0, 0.0), p11=(1.1, 0.0))
    sampler = PromptSampler(SAMPLES, 0, HistoryResampling(solved=1.1), states)
    assert {s.id for s in sampler.draw(10)} == {f"p{i}" for i in range(10, 20)}
    assert sampler.epoch == 1.0
    mixed = PromptRecord(played=1, reward=0.6, stale=0)
    assert not HistoryResampling(solved=0.5).skip(mixed, 0.0)


def test_when_all_is_solved_prompts_still_come() -> None:
    states = remembered(**{f"p{i}": (1.0, 1.0) for i in range(20)})
    sampler = PromptSampler(SAMPLES, 0, HistoryResampling(), states)
    assert len(sampler.draw(3)) == 3


def test_greso_passes_over_stale_prompts_ever_more_often() -> None:
    rule = Greso(explore_solved=0.5, explore_failed=0.25)
    solved = PromptRecord(played=2, reward=1.0, stale=2)
    assert [rule.skip(solved, c) for c in (0.24, 0.26)] == [False, True]
    failed = PromptRecord(played=2, reward=0.0, stale=2)
    assert [rule.skip(failed, c) for c in (0.06, 0.07)] == [False, True]
    assert not rule.skip(PromptRecord(played=1, reward=0.5, stale=0), 0.999)


def test_greso_chances_are_those_of_its_rule() -> None:
    states = PromptStates()
    for _ in range(2):
        states.observe([group("p0", (1.0, 1.0))])
    sampler = PromptSampler(SAMPLES, 0, Greso(explore_solved=0.5), states)
    counts = Counter(s.id for _ in range(200) for s in sampler.draw(20))
    assert 0.17 < counts["p0"] / counts["p1"] < 0.33


def test_what_is_unknown_is_told() -> None:
    with pytest.raises(ConfigError, match="did you mean greso"):
        find_preference("gresso", "stages.0.prompts")
    with pytest.raises(ConfigError, match=r"stages\.0\.prompts\.share"):
        find_preference({"name": "variance_aware", "share": 2}, "stages.0.prompts")
