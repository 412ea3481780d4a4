"""Completions that are not sampled yet, and which of them are sampled next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vlrft.memory.admission import (
    CacheLimits,
    CacheUse,
    admit_requests,
    longest_first,
    take_admitted,
)
from vlrft.rollout.engines.types import Request, Sampling


@dataclass(frozen=True)
class Admitted:
    """A request with some of its seeds; `first`: the place of the first among all of the request's seeds."""

    index: int
    first: int
    request: Request


class WaitingRequests:
    """A queue, longest prompts first. Each seed is admitted once, and those of a request in order."""

    def __init__(self, requests: Sequence[Request], sampling: Sampling) -> None:
        limits = sampling.limits
        self.limits = CacheLimits(
            steps=sampling.max_tokens,
            max_rows=limits.max_rows,
            max_cache_tokens=limits.max_cache_tokens,
        )
        self._requests = requests
        self._lengths = [len(request.prompt.ids) for request in requests]
        self._used = [0] * len(requests)  # seeds that have been admitted
        self._waiting = longest_first(self._lengths, [len(r.seeds) for r in requests])

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def count_admissible(self, use: CacheUse) -> int:
        """Completions that `admit` would return beside those in use."""
        return sum(count for _, count in self._choose(use))

    def admit(self, use: CacheUse) -> list[Admitted]:
        """Takes the next completions, as many as are prefilled together and have room beside those in use."""
        chosen = self._choose(use)
        admitted: list[Admitted] = []
        for index, count in chosen:
            first, request = self._used[index], self._requests[index]
            seeds = request.seeds[first : first + count]
            admitted.append(Admitted(index, first, replace(request, seeds=seeds)))
            self._used[index] = first + count
        self._waiting = take_admitted(self._waiting, chosen)
        return admitted

    def _choose(self, use: CacheUse) -> list[tuple[int, int]]:
        return admit_requests(self._waiting, self._lengths, self.limits, use)
