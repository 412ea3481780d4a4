"""The thread that runs the schedule of an `EnvPool`: it alone touches the processes and the journals."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from multiprocessing.connection import wait
from queue import Empty, SimpleQueue
from typing import Any

from vlrft.envs.jobs import Worker
from vlrft.envs.schedule import Schedule

CHECK_SECONDS = 0.2  # between checks of a silent process: of its memory, and whether it lives


class Dispatcher:
    """Runs functions of other threads, exchanges calls and results with the processes, and sets the futures."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._inbox: SimpleQueue[tuple[Callable[[Schedule], object], tuple[Future[Any], ...]]] = (
            SimpleQueue()
        )
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._checked = 0.0  # when all processes were last looked at
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="environments", daemon=True)
        self._thread.start()

    def post(
        self, function: Callable[[Schedule], object], futures: Iterable[Future[Any]] = ()
    ) -> None:
        """Runs the function in the thread soon; an error that it raises becomes that of the futures."""
        self._inbox.put((function, tuple(futures)))
        with suppress(OSError):  # full: the thread is about to wake
            os.write(self._waker, b"\0")

    def stop(self) -> None:
        """Ends the thread and the processes; calls without a result are cancelled. Does not wait."""
        self.post(lambda schedule: setattr(self, "_stopped", True))

    def join(self) -> None:
        """Waits for the end of the thread after `stop`."""
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._exchange()
            except BaseException as e:  # an error of ours must not leave the callers waiting
                self.schedule.end(e)
        self.schedule.end()
        os.close(self._wake)
        os.close(self._waker)

    def _exchange(self) -> None:
        """Takes posted functions and replies as they come, and returns after one wait at most."""
        self._run_posted()
        self.schedule.assign()
        self._settle()
        busy = self.schedule.busy
        pipes = [pipe for worker in busy if (pipe := worker.process.pipe) is not None]
        ready = [] if self._stopped else wait([self._wake, *pipes], _patience(busy))
        if self._wake in ready:
            os.read(self._wake, 4096)
        now = time.monotonic()
        check = now - self._checked >= CHECK_SECONDS
        self._checked = now if check else self._checked
        for worker in busy:
            if check or worker.process.pipe in ready or now > worker.process.deadline:
                self.schedule.receive(worker)

    def _run_posted(self) -> None:
        with suppress(Empty):
            while True:
                function, futures = self._inbox.get_nowait()
                try:
                    function(self.schedule)
                except BaseException as e:
                    for future in futures:
                        future.set_exception(e)

    def _settle(self) -> None:
        settled, self.schedule.settled = self.schedule.settled, []
        for future, result in settled:
            with suppress(InvalidStateError):  # cancelled by the caller
                future.set_result(result)


def _patience(busy: list[Worker]) -> float | None:
    """Seconds to wait for a reply; None: until something is posted."""
    if not busy:
        return None
    remaining = min(worker.process.deadline for worker in busy) - time.monotonic()
    return min(max(remaining, 0.0), CHECK_SECONDS)
