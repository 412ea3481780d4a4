"""Calls without a result, and the worker processes that they wait for."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from vlrft.envs.process import EnvProcess
from vlrft.envs.worker_main import Call


@dataclass(eq=False)
class Job:
    """A call that has no result yet."""

    call: Call
    future: Future[Any]
    movable: bool  # to another process, while its own is busy with another call

    @property
    def closes(self) -> bool:
        return self.call.payload is None

    def contains(self, call: Call) -> bool:
        """Whether the call is the job's own, or one of the replay before it."""
        return call is self.call or (call.replay and call.handle == self.call.handle)


@dataclass(eq=False)
class Worker:
    """A process, the job that it works on, and those that wait for it. It is busy while its process has calls."""

    process: EnvProcess
    waiting: deque[Job] = field(default_factory=deque[Job])
    job: Job | None = None
    home: Worker | None = None  # of the job's environment, while the job is tried here
    since: float = 0.0  # when the process began its current call, by the clock of the schedule
    copies: list[Call] = field(
        default_factory=list[Call]
    )  # closes of environments that live elsewhere
