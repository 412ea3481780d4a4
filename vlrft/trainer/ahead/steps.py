"""Jobs of consecutive steps, each in a thread: begun as weights come out, taken in the order of the steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
LOOK_SECONDS = 1.0  # so that a signal that another thread received is handled while this one waits
LEAVE_SECONDS = (
    10.0  # for the threads to end after `close`; they are daemons, so none outlives the process
)


class Turns:
    """Lets the jobs of consecutive steps do something one after another, in the order of the steps. Thread-safe."""

    def __init__(self, first: int) -> None:
        self._condition = threading.Condition()
        self._step = first
        self._over = False

    def wait(self, step: int) -> None:
        """Returns when it is this step's turn. Raises JobStopped after `close`."""
        with self._condition:
            self._condition.wait_for(lambda: self._over or self._step >= step)
            if self._over:
                raise JobStopped

    def end(self, step: int) -> None:
        """Gives the turn to the next step; more than once is no mistake."""
        with self._condition:
            self._step = max(self._step, step + 1)
            self._condition.notify_all()

    def close(self) -> None:
        """Ends every wait."""
        with self._condition:
            self._over = True
            self._condition.notify_all()


class JobStopped(Exception):
    """Raised within a job whose result nobody takes any more."""


@dataclass
class _Job(Generic[T]):
    """The job of one step; `result` is a list so that None can be one."""

    step: int
    result: list[T] = field(default_factory=list)
    error: BaseException | None = None
    thread: threading.Thread | None = None

    @property
    def ended(self) -> bool:
        return bool(self.result) or self.error is not None


class StepsAhead(Generic[T]):
    """Runs `job(step, version)` for the steps from `first` to `last`, at most `ahead` steps before they are taken.

    The main thread calls `release` when the weights after a step are out, and `take` for each step in order. `version` is
    the step that was released last when the job began.
    """

    def __init__(
        self,
        job: Callable[[int, int], T],
        *,
        ahead: int,
        first: int,
        last: int,
        progress: Callable[[], object] = int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`progress` is called by `take` whenever a job may have got on."""
        self._job, self._ahead, self._last = job, ahead, last
        self._progress, self._clock = progress, clock
        self._next = first
        self._jobs: dict[int, _Job[T]] = {}
        self._changed = threading.Condition()
        self._moved = 0  # times that `advance` was called
        self._running = 0
        self._idle_since = clock()
        self.idle_seconds = 0.0
        """Seconds in which no job was running."""

    def release(self, version: int) -> None:
        """The weights after step `version` are out: begins the steps up to `version` + 1 + `ahead`."""
        while self._next <= min(version + 1 + self._ahead, self._last):
            job = self._jobs[self._next] = _Job[T](self._next)
            with self._changed:
                if not self._running:
                    self.idle_seconds += self._clock() - self._idle_since
                self._running += 1
            job.thread = threading.Thread(
                target=self._run, args=(job, version), name=f"vlrft-step-{job.step}", daemon=True
            )
            job.thread.start()
            self._next += 1

    def _run(self, job: _Job[T], version: int) -> None:
        result: list[T] = []
        error: BaseException | None = None
        try:
            result = [self._job(job.step, version)]
        except BaseException as e:  # raised again by `take`
            error = e
        with self._changed:
            job.result, job.error = result, error
            self._running -= 1
            self._idle_since = self._clock()
            self._changed.notify_all()

    def advance(self) -> None:
        """Says that a job has got on. Any thread may call it."""
        with self._changed:
            self._moved += 1
            self._changed.notify_all()

    def take(self, step: int) -> T:
        """The result of a step that has been begun, when it is there; raises the error of its job."""
        job = self._jobs[step]
        seen = 0
        while not job.ended:
            with self._changed:
                if self._moved == seen and not job.ended:
                    self._changed.wait(LOOK_SECONDS)
                advanced, seen = self._moved != seen, self._moved
            if advanced:
                self._progress()
        del self._jobs[step]
        if job.error is not None:
            raise job.error
        return job.result[0]

    def join(self) -> None:
        """Waits for the threads of jobs that nobody takes, for a limited time."""
        until = time.monotonic() + LEAVE_SECONDS
        for job in self._jobs.values():
            if job.thread is not None:
                job.thread.join(max(until - time.monotonic(), 0.0))
