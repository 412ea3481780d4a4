"""Calls with a hard time limit, in a worker process that is killed when a call exceeds it.

    worker = Worker(memory_gb=2)
    worker.call(parse_latex, "\\frac{1}{2}", seconds=5.0)    # raises WorkerTimeout after five seconds; the process is gone

The caller uses neither signals nor threads, so it works in any thread, and with code that holds the interpreter's lock,
such as a regular expression that backtracks forever. The process starts with the first call, is started again after a
kill or a crash, and ends with its caller, however that ends. The caller's `__main__` is not run again.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from vlrft.schema.errors import (
    UnsendableError,
    WorkerDied,
    WorkerError,
    WorkerMemoryError,
    WorkerTimeout,
)
from vlrft.workers.memory import CHECK_SECONDS, exceeds, in_gigabytes
from vlrft.workers.subprocess_pipe import (
    START_SECONDS,
    describe_exit,
    end,
    kill_group,
    start_process,
)


class Worker:
    """One process that runs one call at a time; safe to share between threads."""

    def __init__(self, *, memory_gb: float | None = None) -> None:
        """`memory_gb`: limit of the resident memory of the process and its children; a call that exceeds it raises
        WorkerMemoryError. None: no limit."""
        self.memory = None if memory_gb is None else int(memory_gb * 2**30)
        self._reset()

    def _reset(self) -> None:
        self._caller = os.getpid()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection[Any, Any] | None = None
        self._loaded: set[str] = set()
        self._end: Callable[[], object] | None = None

    @property
    def pid(self) -> int | None:
        """The process's id; None while there is no process."""
        return None if self._process is None else self._process.pid

    def call(
        self,
        function: str | Callable[..., Any],
        *args: Any,
        seconds: float,
        loads: Sequence[str] = (),
    ) -> Any:
        """Calls the function in the process and returns its result.

        The process imports the function by its reference: a string for `references.load_attribute`, or a module-level
        function. Only the arguments and the result are pickled. `loads`: further references to import before the time
        starts, in at most 120 seconds or `seconds`, whichever is more. Raises the function's exception (UnsendableError
        for one that only its process has), WorkerTimeout, WorkerMemoryError, WorkerDied, and WorkerError for values that
        cannot be pickled.
        """
        reference = function if isinstance(function, str) else reference_of(function)
        try:
            message = pickle.dumps((reference, args, seconds))
        except Exception as e:
            raise WorkerError(f"the arguments of {reference} cannot be pickled: {e}") from e
        if os.getpid() != self._caller:  # a fork: the process belongs to the original
            self._reset()
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._stop()  # it died between two calls, as one that the kernel kills for memory
            try:
                names = [name for name in (reference, *loads) if name not in self._loaded]
                self._load(names, max(START_SECONDS, seconds))
                return self._ask(message, seconds)
            except (WorkerTimeout, WorkerMemoryError, WorkerDied, KeyboardInterrupt, SystemExit):
                self._stop()
                raise

    def close(self) -> None:
        """Ends the process; a later call starts another."""
        with self._lock:
            self._stop()

    def interrupt(self) -> None:
        """Kills the process during a call of another thread, which then raises WorkerDied."""
        process = self._process
        if process is not None and process.poll() is None:
            kill_group(process)

    def _load(self, names: Sequence[str], seconds: float) -> None:
        """Imports the references. A new process that dies or hangs here cannot run any call, whatever the
        arguments: the error is a plain WorkerError."""
        for name in names:
            fresh = self._process is None
            try:
                self._ask(pickle.dumps((name, None, seconds)), seconds)
            except (WorkerTimeout, WorkerMemoryError, WorkerDied) as e:
                if not fresh:
                    raise
                self._stop()
                raise WorkerError(f"the process for {name} does not start: {e}") from None
            self._loaded.add(name)

    def _ask(self, message: bytes, seconds: float) -> Any:
        pipe = self._pipe or self._start()
        try:
            pipe.send_bytes(message)
            received = pipe.recv_bytes() if self._wait(pipe, seconds) else None
        except (EOFError, OSError):
            assert self._process is not None
            raise WorkerDied(f"its process died{describe_exit(self._process)}") from None
        if received is None:
            raise WorkerTimeout(f"took longer than {seconds:g} s and was killed")
        self._check_memory()  # also after short calls, each of which may leak a little
        succeeded, content, text = pickle.loads(received)
        try:
            result = pickle.loads(content)
        except Exception:  # of a class that only the other process has
            result = UnsendableError(text)
            succeeded = False
        if succeeded:
            return result
        raise result

    def _wait(self, pipe: Connection[Any, Any], seconds: float) -> bool:
        """Whether a reply arrives in time. Raises WorkerMemoryError, and EOFError for a process that has ended: its
        children may keep the pipe open."""
        assert self._process is not None
        deadline = time.monotonic() + seconds
        while True:
            ended = self._process.poll() is not None  # before the pipe is polled
            remaining = deadline - time.monotonic()
            if pipe.poll(max(min(remaining, CHECK_SECONDS), 0.0)):
                return True
            if ended:
                raise EOFError
            if remaining <= 0:
                return False
            self._check_memory()

    def _check_memory(self) -> None:
        assert self._process is not None
        used = exceeds(self._process.pid, self.memory)
        if used:
            assert self.memory is not None
            raise WorkerMemoryError(
                f"used {in_gigabytes(used)} of memory, more than its limit of {in_gigabytes(self.memory)}, and was killed"
            )

    def _start(self) -> Connection[Any, Any]:
        self._process, self._pipe = start_process("vlrft.workers.worker_main:serve")
        self._end = weakref.finalize(self, end, self._process, self._pipe, os.getpid())
        return self._pipe

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        self._process = self._pipe = self._end = None
        self._loaded.clear()


class Workers:
    """Several workers that share a list of calls."""

    def __init__(self, count: int, *, memory_gb: float | None = None) -> None:
        self.count = count
        self.all = [Worker(memory_gb=memory_gb) for _ in range(count)]
        self._interrupted = threading.Event()

    def map(
        self,
        function: str | Callable[..., Any],
        calls: Sequence[tuple[Any, ...]],
        seconds: float,
        *,
        loads: Sequence[str] = (),
        stop: bool = False,
    ) -> list[Any]:
        """The results of the calls, in order; a call that fails has its exception in place of a result.

        `stop`: calls that have not started when one fails are not made, and get its exception.
        """
        free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self.all:
            free.put(worker)
        failed: list[Exception] = []
        self._interrupted.clear()

        def run_call(args: tuple[Any, ...]) -> Any:
            if failed and (stop or self._interrupted.is_set()):
                return failed[0]
            worker = free.get()
            try:
                return worker.call(function, *args, seconds=seconds, loads=loads)
            except Exception as e:
                failed.append(e)
                return e
            finally:
                free.put(worker)

        with ThreadPoolExecutor(self.count) as threads:
            return list(threads.map(run_call, calls))

    def interrupt(self) -> None:
        """Ends a `map` of another thread: no further call is made, and running calls fail."""
        self._interrupted.set()
        for worker in self.all:
            worker.interrupt()

    def close(self) -> None:
        for worker in self.all:
            worker.close()


def reference_of(function: Callable[..., Any]) -> str:
    """`module:name` of a module-level function. Raises WorkerError for a function that cannot be imported by name."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    source = sys.modules.get(module or "")
    if name is None or source is None or getattr(source, name, None) is not function:
        raise WorkerError(
            f"{function!r} is not a function of a module, so a worker process cannot import it; define it at module level"
        )
    file = getattr(source, "__file__", None)
    from_file = module == "__main__" or str(module).startswith("vlrft_file_")
    return f"{file}:{name}" if from_file and file else f"{module}:{name}"
