"""One worker process of environments, as its host uses it: it gets lists of calls and returns one result per call."""

from __future__ import annotations

import os
import pickle
import subprocess
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from vlrft.envs.failures import EnvFailure, env_of
from vlrft.envs.worker_main import Call
from vlrft.workers.memory import exceeds, in_gigabytes
from vlrft.workers.subprocess_pipe import START_SECONDS, describe_exit, end, start_process

# Sets of strings have the same order in every process, so that an episode can be replayed.
HASH_SEED = "0"


class ProcessLost(Exception):
    """A process that died, hangs, or could not be started. `reason`: a predicate, such as "died (exit code 7)"."""

    def __init__(self, reason: str, hint: str = "", ready: bool = True) -> None:
        """`ready`: whether it had loaded its task."""
        super().__init__(reason)
        self.reason, self.hint, self.ready = reason, f"; {hint}" if hint else "", ready

    def failure_of(self, call: Call) -> EnvFailure:
        """The failure of the environment that the call was for."""
        if not self.ready:
            return EnvFailure(
                f"{env_of(call.sample)} has no worker process: the worker {self.reason}{self.hint}"
            )
        replay = ", replayed in a new process" if call.replay else ""
        return EnvFailure(f"{env_of(call.sample)} {self.reason} {call.moment}{replay}{self.hint}")


class Reply(NamedTuple):
    call: Call
    digest: bytes  # of the result; empty: the environment failed
    content: bytes  # the pickled result; empty for a replay, where only the digest is needed


class EnvProcess:
    """A worker process that starts with the first calls sent to it, and again after its end.

    `calls`: those that have no reply yet; the process works on the first.
    """

    def __init__(
        self, task: str, seconds: float, start_seconds: float, memory: int | None = None
    ) -> None:
        """`seconds`: the limit of a turn. `start_seconds`: the limit of an environment's start. `memory`: the limit of
        resident memory, in bytes."""
        self.calls: deque[Call] = deque()
        self.ready = False  # it has loaded the task and can be sent calls
        self.deadline = 0.0  # of the current call, by the monotonic clock
        self.pipe: Connection[Any, Any] | None = None
        self._arguments = task, seconds, start_seconds
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], object] | None = None
        self._start_error = ""  # why there is no process

    @property
    def pid(self) -> int | None:
        """None while no process runs."""
        return None if self._process is None else self._process.pid

    @property
    def died(self) -> bool:
        """Whether the process ended without `end`."""
        return self._process is not None and self._process.poll() is not None

    def send(self, calls: Iterable[Call]) -> None:
        self.calls.extend(calls)
        if self._process is None:
            self._start()
        elif self.calls:
            self._send_calls()

    @property
    def suspects(self) -> list[Call]:
        """The calls that fail with the process: the current one, or all of them while the task is not loaded."""
        return list(self.calls)[: 1 if self.ready else None]

    def receive(self) -> Reply | None:
        """The next reply, if there is one. Raises ProcessLost if the process died or exceeded its time limit; call `end`
        then."""
        if self.pipe is None:
            raise self._lost(f"cannot be started ({self._start_error})")
        died = self.died  # before the pipe is polled, which then contains all that the process sent
        if not self.pipe.poll():
            if died:
                raise self._lost_by_death()
            if time.monotonic() > self.deadline:
                reason = f"took longer than {self._limit():g} s and was killed"
                raise self._lost(reason, f"make it faster, or {self._advice()}")
            self._check_memory()
            return None
        try:
            message = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            raise self._lost_by_death() from None
        if self.ready:
            self._check_memory()
            reply = Reply(self.calls.popleft(), *message)
            self._set_deadline()
            return reply
        if message is not None:
            raise self._lost(f"cannot load the task ({message})")
        self.ready = True
        self._send_calls()
        return None

    def end(self) -> None:
        """Kills the process, if there is one, and the processes that it started."""
        if self._end is not None:
            self._end()
        self._process = self.pipe = self._end = None
        self.ready = False
        self.calls.clear()

    def _start(self) -> None:
        self._set_deadline()
        try:
            self._process, self.pipe = start_process(
                "vlrft.envs.worker_main:serve",
                *self._arguments,
                environment={"PYTHONHASHSEED": HASH_SEED},
            )
        except OSError as e:  # `receive` reports it
            self._start_error, self.deadline = str(e), 0.0
            return
        self._end = weakref.finalize(self, end, self._process, self.pipe, os.getpid())

    def _send_calls(self) -> None:
        assert self.pipe is not None
        with suppress(OSError):  # it died; `receive` reports it
            self.pipe.send_bytes(pickle.dumps(list(self.calls)))
        self._set_deadline()

    def _set_deadline(self) -> None:
        self.deadline = time.monotonic() + self._limit()

    def _limit(self) -> float:
        """Seconds that the current call, or the start of the process, may take."""
        _, seconds, start_seconds = self._arguments
        if not self.ready:
            return max(START_SECONDS, seconds)
        return self.calls[0].limit(seconds, start_seconds) if self.calls else seconds

    def _advice(self) -> str:
        """The setting that gives the current call, or the start of the process, more time."""
        above = f" above {self._limit():g}" if self._limit() > self._arguments[1] else ""
        return f"raise task.env.time_limit{above}"

    def _check_memory(self) -> None:
        """Raises ProcessLost if the process uses more memory than its limit."""
        used = 0 if self._process is None else exceeds(self._process.pid, self._memory)
        if used:
            limit = in_gigabytes(self._memory or 0)
            reason = f"used {in_gigabytes(used)} of memory, more than the limit of {limit}, and was killed"
            raise self._lost(reason, "make it smaller, or raise task.env.memory_gb")

    def _lost_by_death(self) -> ProcessLost:
        cause = describe_exit(self._process) if self._process is not None else ""
        hint = "it may have run out of memory" if "SIGKILL" in cause else ""
        return self._lost(f"died with its process{cause}" if self.ready else f"died{cause}", hint)

    def _lost(self, reason: str, hint: str = "") -> ProcessLost:
        return ProcessLost(reason, hint, self.ready)
