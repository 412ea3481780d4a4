"""Which requests are sampled at once, and which take the place of completions that have ended."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlrft.memory import admission
from vlrft.memory.admission import CacheUse
from vlrft.rollout.engines import Limits, Request, Sampling
from vlrft.rollout.engines.waiting import Admitted, WaitingRequests
from vlrft.schema import Prompt


def requests_of(shapes: Sequence[tuple[int, int]]) -> list[Request]:
    """Requests of (prompt tokens, seeds); every seed is its place."""
    return [
        Request(id=str(i), prompt=Prompt(ids=(1,) * length), seeds=tuple(range(seeds)))
        for i, (length, seeds) in enumerate(shapes)
    ]


def queue_of(shapes: Sequence[tuple[int, int]], steps: int, **limits: int) -> WaitingRequests:
    sampling = Sampling(max_tokens=steps, limits=Limits(**limits))
    return WaitingRequests(requests_of(shapes), sampling)


def admit_all(queue: WaitingRequests) -> list[list[Admitted]]:
    batches: list[list[Admitted]] = []
    while queue:
        batches.append(queue.admit(CacheUse()))
    return batches


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 12)), max_size=12),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 400),
    st.integers(0, 9),
)
def test_every_seed_comes_once_in_order_and_within_the_bounds(
    shapes: list[tuple[int, int]], steps: int, max_rows: int, max_cache_tokens: int, kept: int
) -> None:
    queue = queue_of(shapes, steps, max_rows=max_rows, max_cache_tokens=max_cache_tokens)
    seeds: list[list[int]] = [[] for _ in shapes]
    use = CacheUse()
    while queue:
        admissible = queue.count_admissible(use)
        part = queue.admit(use)
        new = sum(len(p.request.seeds) for p in part)
        assert new == admissible
        assert new or use.rows  # an empty cache always takes something
        rows, prompts = use.rows + new, use.prompts + len(part)
        longest = max([use.longest, *(len(p.request.prompt.ids) for p in part)])
        if new:
            assert rows <= max_rows
            assert prompts * longest + rows * steps <= max_cache_tokens or rows == 1
        for p in part:
            assert list(p.request.seeds) == list(range(p.first, p.first + len(p.request.seeds)))
            seeds[p.index] += p.request.seeds
        left = min(rows, kept) if new else 0  # some of the rows end
        use = CacheUse(prompts=min(prompts, left), longest=longest if left else 0, rows=left)
    assert seeds == [list(range(count)) for _, count in shapes]


def test_prompts_of_similar_length_are_sampled_together() -> None:
    queue = queue_of([(10, 2), (50, 2), (11, 2), (49, 2)], 1, max_rows=4, max_cache_tokens=1000)
    assert [[p.index for p in part] for part in admit_all(queue)] == [[1, 3], [2, 0]]


def test_prefills_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "PREFILL_TOKENS", 100)
    queue = queue_of([(50, 1)] * 5, 1, max_rows=99, max_cache_tokens=10_000)
    assert [len(part) for part in admit_all(queue)] == [2, 2, 1]


def test_only_a_request_that_is_too_large_by_itself_is_split_into_what_is_free() -> None:
    queue = queue_of([(10, 9)], 1, max_rows=6, max_cache_tokens=1000)
    assert [len(p.request.seeds) for p in queue.admit(CacheUse())] == [6]
    assert (
        queue.admit(CacheUse(prompts=1, longest=10, rows=4)) == []
    )  # 3 are left: they fit at once
    queue = queue_of([(10, 20)], 1, max_rows=6, max_cache_tokens=1000)
    assert [len(p.request.seeds) for p in queue.admit(CacheUse(prompts=1, longest=10, rows=4))] == [2]  # fmt: skip
