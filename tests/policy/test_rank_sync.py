"""Ranks that sample together make the same calls in the same order, whatever work each of them has."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.thread_ranks import run_thread_ranks
from vlrft.distributed.ranks import Ranks
from vlrft.policy.rank_sync import RoundRobin, Unsynchronised

WORK = st.lists(st.booleans(), max_size=6)  # whether each of a rank's calls has an image


@settings(deadline=None, max_examples=60)
@given(st.lists(WORK, min_size=2, max_size=4))
def test_all_ranks_make_the_same_calls(work: list[list[bool]]) -> None:
    def sample(ranks: Ranks) -> tuple[list[bool], list[int]]:
        rank_sync, calls, results = RoundRobin(ranks), list[bool](), list[int]()

        def run(k: int, with_images: bool) -> int:
            calls.append(with_images)
            return k

        for k, with_images in enumerate(work[ranks.rank]):
            results.append(
                rank_sync.run(
                    partial(run, k, with_images), with_images=with_images, run_filler=calls.append
                )
            )
        rank_sync.finish(calls.append)
        return calls, results

    by_rank = run_thread_ranks(len(work), sample)
    assert all(calls == by_rank[0][0] for calls, _ in by_rank)
    assert [results for _, results in by_rank] == [list(range(len(mine))) for mine in work]
    longest = max(map(len, work))
    assert longest <= len(by_rank[0][0]) <= 2 * longest


def test_a_rank_with_all_weights_does_not_wait() -> None:
    filled: list[bool] = []
    rank_sync = Unsynchronised()
    assert rank_sync.run(lambda: "result", with_images=True, run_filler=filled.append) == "result"
    rank_sync.finish(filled.append)
    assert filled == []
