"""Played episodes whose contexts are kept between turns: alone, on ranks that sample together, and where they must not be kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from tests.conftest import Tiny
from tests.fakes.thread_ranks import run_thread_ranks
from tests.rollout.engines.test_kept_contexts import prefilled_tokens
from tests.rollout.test_play import TASK, Count
from vlrft.config import EnvConfig
from vlrft.distributed.ranks import Ranks
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.policy.rank_sync import RoundRobin, RunFiller
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.play import play
from vlrft.rollout.task import LoadedTask
from vlrft.schema import Group, Observation, Piece, Sample, Step
from vlrft.testing.small_policies import CORPUS, ask, sample, tiny_config

T = TypeVar("T")
SAMPLING = Sampling(max_tokens=6)


class Ragged(Count):
    """Ends after as many turns as the sample's id says, for its second rollout one later."""

    def __init__(self, sample: Sample) -> None:
        super().__init__(sample)
        self.left = int(sample.id) + sample.rollout

    def step(self, text: str) -> Step:
        self.left -= 1
        step = super().step(text)
        if self.left == 0:
            return replace(step, observation=None)
        return replace(step, observation=self.seen(follows="grows" in self.kind))

    def seen(self, *, follows: bool) -> Observation:
        if "first" in self.kind and self.turn:
            self.kind = "grows"  # an image in the first observation alone
        # the conversations of one sample are built again in the middle of its episodes
        again = "again" in self.kind and self.turn == 2 and self.sample.id == "3"
        seen = super().seen(follows=follows and not again)
        return replace(seen, messages=ask("and " * 90)) if again else seen


class Whole(HfEngine):
    """Keeps nothing."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        return super().generate([replace(r, grows=False) for r in requests], sampling)


def play_ragged(policy: Policy, kind: str, engine: HfEngine, first: int = 1) -> list[Group]:
    loaded = LoadedTask(
        task=replace(TASK, env=Ragged), samples=(), rewards=(), env=EnvConfig(max_turns=4)
    )
    samples = [sample(str(k), kind) for k in range(first, first + 3)]
    seeds = [[10 * k, 10 * k + 1] for k in range(3)]
    return play(loaded, samples, engine, policy.chat, SAMPLING, seeds=seeds)


def assert_equal_groups(groups: list[Group], expected: list[Group]) -> None:
    def rows(groups: list[Group]) -> list[Any]:
        return [[[p.ids for p in row.pieces] for row in r.rows] for g in groups for r in g.rollouts]

    assert rows(groups) == rows(expected)


@pytest.mark.parametrize("kind", ["grows", "grows image", "grows again", "rebuilt image"])
def test_episodes_are_those_of_an_engine_that_keeps_nothing(tiny: Tiny, kind: str) -> None:
    policy = tiny("qwen2_vl")
    engine = HfEngine(policy)
    with prefilled_tokens(policy) as whole:
        expected = play_ragged(policy, kind, Whole(policy))
    with prefilled_tokens(policy) as counts:
        groups = play_ragged(policy, kind, engine)
    assert_equal_groups(groups, expected)
    assert [len(r.turns) for g in groups for r in g.rollouts] == [1, 2, 2, 3, 3, 4]
    assert engine._kept.tokens == 0
    # those that are built again are run apart from those that continue
    assert len(counts) == len(whole) + (kind == "grows again")
    if "grows" in kind:
        assert sum(counts) < 0.9 * sum(whole)
    else:
        assert counts == whole


def test_contexts_are_kept_where_they_may_be_continued(tiny: Tiny) -> None:
    """After each turn of a growing context, and after the first of any, which may be one."""
    policy = tiny("qwen2_vl")
    kept: list[int] = []

    class Noting(HfEngine):
        def generate(
            self, requests: Sequence[Request], sampling: Sampling
        ) -> list[tuple[Piece, ...]]:
            pieces = super().generate(requests, sampling)
            kept.append(self._kept.tokens)
            return pieces

    play_ragged(policy, "rebuilt", Noting(policy))
    assert kept[0] > 0
    assert kept[1:] == [0, 0, 0]
    kept.clear()
    play_ragged(policy, "grows", Noting(policy))
    assert len(kept) == 4
    assert min(kept) > 0
    kept.clear()
    loaded = LoadedTask(
        task=replace(TASK, env=None), samples=(), rewards=(), env=EnvConfig()
    )  # one turn
    play(loaded, [sample("q")], Noting(policy), policy.chat, SAMPLING, seeds=[[0, 1]])
    assert kept == [0]


class Checked(RoundRobin):
    """Holds the work of a call to what it says of its images."""

    def __init__(self, ranks: Ranks, policy: Policy) -> None:
        super().__init__(ranks)
        self.tower = policy.model.model.visual

    def run(self, work: Callable[[], T], *, with_images: bool, run_filler: RunFiller) -> T:
        def checked() -> T:
            calls: list[int] = []
            hook = self.tower.register_forward_hook(lambda *_: calls.append(1))
            result = work()
            hook.remove()
            assert len(calls) == with_images
            return result

        return super().run(checked, with_images=with_images, run_filler=run_filler)


def test_ranks_that_sample_together_keep_contexts_of_their_own() -> None:
    """One with an image in the first turns alone, one without, and each with episodes of its own lengths."""

    def work(ranks: Ranks) -> tuple[list[Group], list[Group]]:
        policy = load_policy(tiny_config("qwen2_vl"), corpus=CORPUS)
        kind = "grows image first" if ranks.first else "grows"
        expected = play_ragged(policy, kind, Whole(policy), first=1 + ranks.rank)
        policy.rank_sync = Checked(ranks, policy)
        policy.backbone.keeps_features = False
        return play_ragged(policy, kind, HfEngine(policy), first=1 + ranks.rank), expected

    for groups, expected in run_thread_ranks(2, work):
        assert_equal_groups(groups, expected)
