"""Named phases of a run, nested, and what observes them. An unobserved phase costs about a microsecond.

    with phase("rollout"): …        @phase("prefill")
                                    def prefill(…): …

The path of a phase inside another one has both names: `rollout/prefill`. Nothing that is computed depends on phases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ContextDecorator, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol, runtime_checkable

ROOT = "loop"  # time outside every phase


class PhaseTimer:
    """Seconds of each path of phases, without the seconds of the phases inside it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        synchronize: Callable[[], None] = lambda: None,
        mark: Callable[[str], AbstractContextManager[object]] = lambda path: nullcontext(),
    ) -> None:
        """`clock` gives seconds; `synchronize` waits until the device is idle; `mark(path)` is entered for the length of a phase."""
        self.seconds: dict[str, float] = {}
        self._clock, self._synchronize, self._mark = clock, synchronize, mark
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
        """Adds the time since the last call to the innermost phase."""
        self._synchronize()
        now = self._clock()
        path = self._open[-1][0] if self._open else ROOT
        self.seconds[path] = self.seconds.get(path, 0.0) + now - self._last
        self._last = now

    @contextmanager
    def running(self) -> Iterator[PhaseTimer]:
        """Times the phases of this thread while the block lasts; an outer timer does not count them."""
        self._last = self._clock()
        token = _TIMER.set(self)
        try:
            yield self
        finally:
            self._add_elapsed()
            _TIMER.reset(token)


@runtime_checkable
class PhaseListener(Protocol):
    """An object that is notified of the phases and samples of a thread, such as the watchdog's status of its rank."""

    def begin(self, name: str) -> None: ...

    def end(self) -> None: ...

    def work_on(self, samples: Sequence[str], step: int | None = None) -> None:
        """The thread starts on these samples; `step` is given when it changes."""
        ...

    def depend_on(self, describe: Callable[[], str] | None) -> None:
        """The run depends on what is outside of its processes, such as servers. `describe`, called from any thread, says what keeps it
        waiting there, in a few words, or nothing; None: it depends on nothing any more."""
        ...


@contextmanager
def notify(listener: PhaseListener) -> Iterator[None]:
    """Notifies the listener, in addition to any timer, while the block lasts."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def untimed() -> Iterator[None]:
    """Phases of the block are not timed: a timer may wait for the device, which cannot be done while its work is recorded."""
    token = _TIMER.set(None)
    try:
        yield
    finally:
        _TIMER.reset(token)


def work_on(samples: Sequence[str], step: int | None = None) -> None:
    """Tells the listener that this thread starts on these samples; `step` is given when it changes."""
    listener = _LISTENER.get()
    if listener is not None:
        listener.work_on(samples, step)


def depend_on(describe: Callable[[], str] | None) -> None:
    """Tells the listener what the run depends on: see `PhaseListener.depend_on`."""
    listener = _LISTENER.get()
    if listener is not None:
        listener.depend_on(describe)


_TIMER: ContextVar[PhaseTimer | None] = ContextVar("timer", default=None)
_LISTENER: ContextVar[PhaseListener | None] = ContextVar("listener", default=None)


class phase(ContextDecorator):  # reads as a keyword: with phase("…")
    """A phase that lasts as long as a `with` block or a call of the decorated function."""

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
