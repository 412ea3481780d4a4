"""Requests that are sampled at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlrft.memory import workload
from vlrft.rollout.engines import Limits, Request
from vlrft.rollout.engines.batching import split_requests
from vlrft.schema import Prompt


def requests_of(shapes: Sequence[tuple[int, int]]) -> list[Request]:
    """Requests of (prompt length, number of seeds)."""
    return [
        Request(id=str(i), prompt=Prompt(ids=(1,) * length), seeds=tuple(range(seeds)))
        for i, (length, seeds) in enumerate(shapes)
    ]


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 12)), max_size=12),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 400),
)
def test_every_seed_comes_once_in_order_and_within_the_bounds(
    shapes: list[tuple[int, int]], steps: int, max_rows: int, max_cache_tokens: int
) -> None:
    requests = requests_of(shapes)
    seeds: list[list[int]] = [[] for _ in requests]
    limits = Limits(max_rows=max_rows, max_cache_tokens=max_cache_tokens)
    for part in split_requests(requests, steps=steps, limits=limits):
        rows = sum(len(request.seeds) for _, request in part)
        keys = len(part) * max(len(r.prompt.ids) for _, r in part) + rows * steps
        assert rows <= max_rows
        assert keys <= max_cache_tokens or rows == 1
        for index, request in part:
            assert request.prompt is requests[index].prompt
            seeds[index] += request.seeds
    assert seeds == [list(request.seeds) for request in requests]


def test_prompts_of_similar_length_are_batched_together() -> None:
    requests = requests_of([(10, 2), (50, 2), (11, 2), (49, 2)])
    limits = Limits(max_rows=4, max_cache_tokens=1000)
    batches = list(split_requests(requests, steps=1, limits=limits))
    assert [[index for index, _ in part] for part in batches] == [[1, 3], [2, 0]]


def test_prefills_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "PREFILL_TOKENS", 100)
    requests = requests_of([(50, 1)] * 5)
    limits = Limits(max_rows=99, max_cache_tokens=10_000)
    batches = list(split_requests(requests, steps=1, limits=limits))
    assert [len(part) for part in batches] == [2, 2, 1]
