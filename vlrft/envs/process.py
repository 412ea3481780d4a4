"""One process of environments, as its host sees it: told a list of calls, heard one answer at a time."""

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

from vlrft.envs.in_process import EnvFailure, about
from vlrft.envs.worker_main import Call
from vlrft.workers.subprocess_pipe import START_SECONDS, death_of, end, launch

HASH_SEED = "0"  # sets of strings are ordered alike in each process, so a play can be repeated


class Lost(Exception):
    """A process that cannot go on: why, in words that follow `its environment` or, if it had not begun, `it`."""

    def __init__(self, why: str, hint: str = "", begun: bool = True) -> None:
        super().__init__(why)
        self.why, self.hint, self.begun = why, f"; {hint}" if hint else "", begun

    def failed(self, call: Call) -> EnvFailure:
        """What it means for one of its environments."""
        if not self.begun:
            what = f"has no process to be in: it {self.why}"
            return EnvFailure(f"{about(call.sample)} {what}{self.hint}")
        again = ", played again in a new process" if call.again else ""
        return EnvFailure(f"{about(call.sample)} {self.why} {call.moment}{again}{self.hint}")


class Reply(NamedTuple):
    call: Call
    digest: bytes  # of what was shown and earned; empty: it failed
    content: bytes  # the answer, pickled; empty: it was asked for its digest only


class EnvProcess:
    """Starts with the first calls it is told, and again after its end. `calls`: what it was told and has not answered;
    the first is what it works on."""

    def __init__(self, task: str, seconds: float, start_seconds: float) -> None:
        """The limits of a turn and of a start."""
        self.calls: deque[Call] = deque()
        self.ready = False  # to be told: it has found the task
        self.deadline = 0.0  # of what it works on, by the monotonic clock
        self.pipe: Connection[Any, Any] | None = None
        self._asked = task, seconds, start_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], object] | None = None
        self._refused = ""  # why there is no process

    @property
    def pid(self) -> int | None:
        """While there is one."""
        return None if self._process is None else self._process.pid

    @property
    def died(self) -> bool:
        """Whether it ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def tell(self, calls: Iterable[Call]) -> None:
        self.calls.extend(calls)
        if self._process is None:
            self._start()
        elif self.calls:
            self._send()

    @property
    def blamed(self) -> list[Call]:
        """Those that its loss is laid to: what it works on, or all while it has not begun."""
        return list(self.calls)[: 1 if self.ready else None]

    def hear(self) -> Reply | None:
        """The next answer, if there is one. Raises Lost when it is dead or over its time; `end` it then."""
        if self.pipe is None:
            raise self._lost(f"cannot be started ({self._refused})")
        died = self.died  # before the look into the pipe, which then holds all that it said
        if not self.pipe.poll():
            if died:
                raise self._dead()
            if time.monotonic() > self.deadline:
                why = f"took longer than {self._limit():g} s and was killed"
                raise self._lost(why, "make it faster, or raise task.env.time_limit")
            return None
        try:
            received = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            raise self._dead() from None
        if self.ready:
            reply = Reply(self.calls.popleft(), *received)
            self._time()
            return reply
        if received is not None:
            raise self._lost(f"does not find its task ({received})")
        self.ready = True
        self._send()
        return None

    def end(self) -> None:
        """Kills it, if there is one, with what it started itself."""
        if self._end is not None:
            self._end()
        self._process = self.pipe = self._end = None
        self.ready = False
        self.calls.clear()

    def _start(self) -> None:
        self._time()
        try:
            self._process, self.pipe = launch(
                "vlrft.envs.worker_main:serve",
                *self._asked,
                environment={"PYTHONHASHSEED": HASH_SEED},
            )
        except OSError as e:  # `hear` tells
            self._refused, self.deadline = str(e), 0.0
            return
        self._end = weakref.finalize(self, end, self._process, self.pipe, os.getpid())

    def _send(self) -> None:
        assert self.pipe is not None
        with suppress(OSError):  # it died: `hear` finds out
            self.pipe.send_bytes(pickle.dumps(list(self.calls)))
        self._time()

    def _time(self) -> None:
        self.deadline = time.monotonic() + self._limit()

    def _limit(self) -> float:
        """Seconds of what it is at."""
        if not self.ready:
            return START_SECONDS
        _, seconds, start_seconds = self._asked
        return self.calls[0].limit(seconds, start_seconds) if self.calls else seconds

    def _dead(self) -> Lost:
        how = death_of(self._process) if self._process is not None else ""
        hint = "was there enough memory?" if "SIGKILL" in how else ""
        return self._lost(f"died with its process{how}" if self.ready else f"died{how}", hint)

    def _lost(self, why: str, hint: str = "") -> Lost:
        return Lost(why, hint, self.ready)
