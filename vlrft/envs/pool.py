"""Environments in worker processes that run in parallel; a process that is lost is replaced."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from vlrft.envs.dispatch import Dispatcher
from vlrft.envs.failures import EnvFailure, warn_of_failures
from vlrft.envs.host import StartResult, StepResult
from vlrft.envs.process import EnvProcess
from vlrft.envs.schedule import Schedule
from vlrft.schema import Sample
from vlrft.workers.subprocess_pipe import START_SECONDS

T = TypeVar("T")
_Futures = dict[int, Future[T]]  # by the handles of their environments

TIME_LIMIT = 60.0  # seconds of a turn unless the config says otherwise
MOVE_SECONDS = 0.5  # much more than a turn of most environments takes


class EnvPool:
    """A `vlrft.envs.Host` with the environments of one task in worker processes.

    Environments of one sample share a process; a new sample goes to the process with the fewest running episodes. A call
    that exceeds its time limit is killed with its process and fails, as does a call whose process dies during it. The
    other environments of that process are replayed in a new one before their next turn; an environment whose replay gives
    another observation, reward or score fails. Calls of `begin` and `submit` that wait for a busy process move to an idle
    one (see `Schedule`).
    """

    def __init__(
        self,
        task: str,
        workers: int,
        time_limit: float = TIME_LIMIT,
        start_limit: float = START_SECONDS,
        memory: int | None = None,
        move_seconds: float = MOVE_SECONDS,
    ) -> None:
        """`task`: a reference for `plugins.find_task`. `time_limit`: seconds of a turn or a close; `start_limit`: of a
        start. `memory`: bytes of resident memory of one process. `move_seconds`: see `Schedule`."""
        self._workers, self._move_seconds = workers, move_seconds
        self._arguments = task, time_limit, max(start_limit, time_limit), memory
        self._handles = itertools.count()
        self._lock = threading.Lock()
        self._dispatcher: Dispatcher | None = None

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes."""
        if self._dispatcher is None:
            return []
        workers = self._dispatcher.schedule.workers
        return [pid for worker in workers if (pid := worker.process.pid) is not None]

    def start(self, samples: Sequence[Sample]) -> list[tuple[int, StartResult]]:
        futures = self._begin(samples, movable=False)
        return list(self._wait(futures, forget=True).items())  # the caller never learns the handles

    def begin(self, samples: Sequence[Sample]) -> list[tuple[int, Future[StartResult]]]:
        return list(self._begin(samples, movable=True).items())

    def step(self, texts: Mapping[int, str]) -> dict[int, StepResult]:
        return self._wait(self._step(texts, movable=False))

    def submit(self, handle: int, text: str) -> Future[StepResult]:
        return self._step({handle: text}, movable=True)[handle]

    def close(self, handles: Iterable[int]) -> None:
        if self._dispatcher is None:
            return
        futures: _Futures[EnvFailure | None] = {handle: Future() for handle in handles}
        copies: list[EnvFailure] = []

        def close(schedule: Schedule) -> None:
            schedule.close(futures)
            copies.extend(schedule.close_failures)
            schedule.close_failures.clear()

        self._post(close, futures)
        closed = self._wait(futures)
        warn_of_failures([*closed.values(), *copies])

    def shutdown(self) -> None:
        """Kills the processes; open environments are not closed first."""
        with self._lock:
            dispatcher, self._dispatcher = self._dispatcher, None
        if dispatcher is not None:
            self._finalizer.detach()
            dispatcher.stop()
            dispatcher.join()

    def _begin(self, samples: Sequence[Sample], movable: bool) -> _Futures[StartResult]:
        futures: _Futures[StartResult] = {next(self._handles): Future() for _ in samples}
        self._post(lambda schedule: schedule.start(samples, futures, movable), futures)
        return futures

    def _step(self, texts: Mapping[int, str], movable: bool) -> _Futures[StepResult]:
        futures: _Futures[StepResult] = {handle: Future() for handle in texts}
        self._post(lambda schedule: schedule.step(texts, futures, movable), futures)
        return futures

    def _wait(self, futures: _Futures[T], forget: bool = False) -> dict[int, T]:
        """The results. An interrupt cuts the calls off; `forget`: it closes their environments, too."""
        try:
            wait(futures.values())
        except BaseException:
            dropped: Future[None] = Future()

            def drop(schedule: Schedule) -> None:
                schedule.drop(futures, forget)
                dropped.set_result(None)

            self._post(drop, {0: dropped})
            dropped.result()
            raise
        return {handle: future.result() for handle, future in futures.items()}

    def _post(self, function: Callable[[Schedule], None], futures: _Futures[Any]) -> None:
        """Runs the function in the dispatcher's thread, which it starts if there is none."""
        with self._lock:
            dispatcher = self._dispatcher
            if dispatcher is None:
                processes = [EnvProcess(*self._arguments) for _ in range(self._workers)]
                dispatcher = Dispatcher(Schedule(processes, self._move_seconds))
                self._finalizer = weakref.finalize(self, dispatcher.stop)
                self._dispatcher = dispatcher
            dispatcher.post(function, futures.values())
