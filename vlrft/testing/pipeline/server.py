"""A server that decodes many requests together, token by token, and is paused while it gets new weights."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import count, pairwise

from vlrft.testing.pipeline.clock import Clock
from vlrft.testing.pipeline.plan import ServerTimes

DONE = 1e-9  # tokens left that are a rounding error
Versions = dict[int, float]  # tokens by version of the weights; a version may end within a token


@dataclass(eq=False, kw_only=True)
class Request:
    """A completion of `tokens` tokens after a prompt."""

    tokens: int
    prompt: int
    key: Hashable  # of the prompt: equal where prompts are
    done: Callable[[Versions], object]
    begin: float = 0.0  # the server's progress when it was admitted


class Server:
    """All rows advance together, so one number, the tokens since the begin, is the progress of them all."""

    def __init__(self, clock: Clock, times: ServerTimes) -> None:
        self.busy: list[tuple[float, float]] = []  # intervals with a request
        self._clock, self._times = clock, times
        self._rows: list[tuple[float, int, Request]] = []  # a heap, by the progress at their end
        self._numbers = count()
        self._waiting: deque[Request] = deque()
        self._prefilled: set[Hashable] = set()
        self._progress = 0.0
        self._versions = [(0.0, 0)]  # each with the progress at which it began
        self._paused = False
        self._since = 0.0  # the time of that progress
        self._ready = 0.0  # when the last prefill ends
        self._plans = 0

    @property
    def load(self) -> int:
        """Requests that it has."""
        return len(self._rows) + len(self._waiting)

    def submit(self, request: Request) -> None:
        """Calls `request.done` at the end of its last token."""
        self._advance()
        self._waiting.append(request)
        self._admit()
        self._plan()

    def pause(self) -> None:
        """No row advances until `resume`."""
        self._advance()
        self._paused = True

    def resume(self, version: int) -> None:
        """The server has new weights: what was sampled so far, and its prompts, are prefilled again."""
        self._advance()
        self._paused = False
        self._versions.append((self._progress, version))
        self._prefilled.clear()
        self._ready = self._clock.now
        for _, _, row in sorted(self._rows):
            self._prefill(row)
        self._admit()
        self._plan()

    def _advance(self) -> None:
        """Brings all rows to the present."""
        now = self._clock.now
        if self._rows and now > self._since:
            self.busy.append((self._since, now))
            seconds = now - max(self._since, self._ready)
            if seconds > 0 and not self._paused:
                tokens = seconds / self._times.step(len(self._rows))
                self._progress = min(self._progress + tokens, self._rows[0][0])
        self._since = now

    def _admit(self) -> None:
        while not self._paused and self._waiting and len(self._rows) < self._times.rows:
            request = self._waiting.popleft()
            request.begin = self._progress
            end = self._progress + request.tokens
            heapq.heappush(self._rows, (end, next(self._numbers), request))
            self._prefill(request)

    def _prefill(self, request: Request) -> None:
        tokens = self._progress - request.begin
        if request.key not in self._prefilled:
            self._prefilled.add(request.key)
            tokens += request.prompt
        self._ready = max(self._ready, self._clock.now) + tokens * self._times.prefill

    def _plan(self) -> None:
        """The next completion to end, unless something changes before."""
        self._plans += 1
        if self._rows and not self._paused:
            plan, tokens = self._plans, self._rows[0][0] - self._progress
            start = max(self._ready - self._clock.now, 0.0)
            seconds = start + tokens * self._times.step(len(self._rows))
            self._clock.after(seconds, lambda: self._end(plan))

    def _end(self, plan: int) -> None:
        if plan != self._plans:
            return
        self._advance()
        ended: list[Request] = []
        while self._rows and self._rows[0][0] - self._progress <= DONE:
            ended.append(heapq.heappop(self._rows)[2])
        self._admit()
        self._plan()
        for request in ended:
            request.done(self._versions_of(request))

    def _versions_of(self, request: Request) -> Versions:
        """The tokens of a request that has ended, by version."""
        end = request.begin + request.tokens
        tokens: Versions = {}
        for (begin, version), (until, _) in pairwise([*self._versions, (end, 0)]):
            sampled = min(until, end) - max(begin, request.begin)
            if sampled > DONE:
                tokens[version] = sampled
        return tokens
