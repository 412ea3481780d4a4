"""Events in the order of their times; those of one time in the order in which they were added."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count

Action = Callable[[], object]


class Clock:
    """Simulated time, which only `run` moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Action]] = []
        self._numbers = count()

    def after(self, seconds: float, action: Action) -> None:
        """Calls the action that many seconds from now."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), action))

    def run(self) -> None:
        """Takes events until there is none."""
        while self._events:
            self.now, _, action = heapq.heappop(self._events)
            action()


class Workers:
    """Workers that each do one thing after another; None: as many as there are things to do."""

    def __init__(self, clock: Clock, size: int | None) -> None:
        self._clock, self._free = clock, float("inf") if size is None else size
        self._waiting: deque[tuple[float, Action]] = deque()

    def work(self, seconds: float, done: Action) -> None:
        """Calls `done` when a worker has worked on this for `seconds`."""
        self._waiting.append((seconds, done))
        self._assign()

    def _assign(self) -> None:
        while self._free and self._waiting:
            seconds, done = self._waiting.popleft()
            self._free -= 1
            self._clock.after(seconds, partial(self._end, done))

    def _end(self, done: Action) -> None:
        self._free += 1
        done()
        self._assign()
