"""Ranks that sample together: whatever each of them has to run, all make the same calls in the same order."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.thread_ranks import run_thread_ranks
from vlrft.distributed.ranks import Ranks
from vlrft.policy.rank_sync import RoundRobin, Unsynchronised

WORK = st.lists(st.booleans(), max_size=6)  # whether each of a rank's calls sees an image


@settings(deadline=None, max_examples=60)
@given(st.lists(WORK, min_size=2, max_size=4))
def test_all_ranks_make_the_same_calls(work: list[list[bool]]) -> None:
    def sampled(ranks: Ranks) -> tuple[list[bool], list[int]]:
        rank_sync, calls, own = RoundRobin(ranks), list[bool](), list[int]()

        def run(k: int, with_images: bool) -> int:
            calls.append(with_images)
            return k

        for k, with_images in enumerate(work[ranks.rank]):
            own.append(
                rank_sync.run(
                    partial(run, k, with_images), with_images=with_images, run_filler=calls.append
                )
            )
        rank_sync.finish(calls.append)
        return calls, own

    found = run_thread_ranks(len(work), sampled)
    assert all(calls == found[0][0] for calls, _ in found)
    assert [own for _, own in found] == [list(range(len(mine))) for mine in work]
    longest = max(map(len, work))
    assert longest <= len(found[0][0]) <= 2 * longest


def test_a_rank_with_all_weights_waits_for_nobody() -> None:
    filled: list[bool] = []
    rank_sync = Unsynchronised()
    assert rank_sync.run(lambda: "said", with_images=True, run_filler=filled.append) == "said"
    rank_sync.finish(filled.append)
    assert filled == []
