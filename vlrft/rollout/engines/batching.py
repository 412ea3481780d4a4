"""Requests -> batches that are sampled at once, within the limits of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vlrft.memory.workload import batch_requests
from vlrft.rollout.engines.types import Limits, Request


def split_requests(
    requests: Sequence[Request], *, steps: int, limits: Limits
) -> Iterator[list[tuple[int, Request]]]:
    """Batches of (index, request), prompts of similar length together, as `batch_requests` splits them. A request whose
    completions are split over several batches appears in each with some of its seeds, in order."""
    batches = batch_requests(
        [len(request.prompt.ids) for request in requests],
        [len(request.seeds) for request in requests],
        steps=steps,
        max_rows=limits.max_rows,
        max_cache_tokens=limits.max_cache_tokens,
    )
    used = [0] * len(requests)  # seeds of each request that earlier batches have
    for batch in batches:
        parts: list[tuple[int, Request]] = []
        for index, count in batch:
            seeds = requests[index].seeds[used[index] : used[index] + count]
            parts.append((index, replace(requests[index], seeds=seeds)))
            used[index] += count
        yield parts
