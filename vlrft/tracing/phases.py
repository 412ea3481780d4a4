"""Named phases of a run, nested, and who watches them. Without a watcher a phase costs about a microsecond.

    with phase("rollout"): …        @phase("prefill")
                                    def prefill(…): …

A phase inside another has both names in its path: `rollout/prefill`. Nothing that is computed depends on any of this.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ContextDecorator, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol, runtime_checkable

ROOT = "loop"  # what is in no phase


class PhaseTimer:
    """Seconds of each path of phases, without those of the phases inside it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        settle: Callable[[], None] = lambda: None,
        mark: Callable[[str], AbstractContextManager[object]] = lambda path: nullcontext(),
    ) -> None:
        """`clock` gives seconds; `settle` waits for what a device still has to do; `mark` is entered for as long as a phase lasts."""
        self.seconds: dict[str, float] = {}
        self._clock, self._settle, self._mark = clock, settle, mark
        self._open: list[tuple[str, AbstractContextManager[object]]] = []
        self._last = 0.0

    def begin(self, name: str) -> None:
        self._add_elapsed()
        path = f"{self._open[-1][0]}/{name}" if self._open else name
        mark = self._mark(path)
        mark.__enter__()
        self._open.append((path, mark))

    def end(self) -> None:
        self._add_elapsed()
        self._open.pop()[1].__exit__(None, None, None)

    def _add_elapsed(self) -> None:
        """Gives the time since the last entry to the innermost phase."""
        self._settle()
        now = self._clock()
        path = self._open[-1][0] if self._open else ROOT
        self.seconds[path] = self.seconds.get(path, 0.0) + now - self._last
        self._last = now

    @contextmanager
    def watching(self) -> Iterator[PhaseTimer]:
        """Within it the phases of this thread are booked here, and on no other watcher."""
        self._last = self._clock()
        token = _TIMER.set(self)
        try:
            yield self
        finally:
            self._add_elapsed()
            _TIMER.reset(token)


@runtime_checkable
class PhaseListener(Protocol):
    """Is told where this thread is, besides any watcher: what to say when it gets no further."""

    def begin(self, name: str) -> None: ...

    def end(self) -> None: ...

    def about(self, samples: Sequence[str], step: int | None = None) -> None:
        """What is done from now on is done for these samples, in this step unless it is the same."""
        ...


@contextmanager
def notify(listener: PhaseListener) -> Iterator[None]:
    """Within it the follower is told."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def working_on(samples: Sequence[str], step: int | None = None) -> None:
    """What is done from now on is done for these samples, in this step unless it is the same."""
    listener = _LISTENER.get()
    if listener is not None:
        listener.about(samples, step)


_TIMER: ContextVar[PhaseTimer | None] = ContextVar("phases", default=None)
_LISTENER: ContextVar[PhaseListener | None] = ContextVar("listener", default=None)


class phase(ContextDecorator):  # reads as a keyword: with phase("…")
    """A phase for as long as a `with` block or a call of the decorated function lasts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        timer, listener = _TIMER.get(), _LISTENER.get()
        if timer is not None:
            timer.begin(self.name)
        if listener is not None:
            listener.begin(self.name)

    def __exit__(self, *_: object) -> None:
        timer, listener = _TIMER.get(), _LISTENER.get()
        if timer is not None:
            timer.end()
        if listener is not None:
            listener.end()
