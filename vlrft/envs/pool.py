"""Environments in processes of their own, all of which work at the same time; a process that is lost is made again."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from vlrft.envs.in_process import EnvFailure, StartResult, StepResult, warn
from vlrft.envs.journal import Record, deal
from vlrft.envs.process import EnvProcess, Lost
from vlrft.envs.worker_main import Call
from vlrft.schema import Observation, Sample, Step
from vlrft.workers.subprocess_pipe import START_SECONDS

if TYPE_CHECKING:
    from PIL.Image import Image

TIME_LIMIT = 60.0  # seconds of a turn unless the config says otherwise
LOOK_SECONDS = 1.0  # how often a silent process is looked at, whose children may hold its pipe open


@dataclass
class _Round:
    """Calls to many environments, one each, and what they are answered."""

    waiting: dict[int, Call]
    answers: dict[int, Any] = field(default_factory=dict[int, Any])
    images: dict[bytes, tuple[Image, ...]] = field(default_factory=dict[bytes, "tuple[Image, ...]"])

    def answer(self, handle: int, answer: Any, digest: bytes = b"") -> None:
        del self.waiting[handle]
        self.answers[handle] = self._shared(answer, digest)

    def _shared(self, answer: Any, digest: bytes) -> Any:
        """Images that several see are the same object, which is then rendered once."""
        seen = answer.observation if isinstance(answer, Step) else answer
        if not isinstance(seen, Observation) or not seen.images:
            return answer
        seen = replace(seen, images=self.images.setdefault(digest, seen.images))
        return replace(answer, observation=seen) if isinstance(answer, Step) else seen


class EnvPool:
    """Hosts the environments of a task; a `vlrft.envs.Host`. For one thread at a time.

    Environments of one sample live in one process; samples go where fewest are at play. A call that takes too long is
    killed with its process, and fails, as does one whose process dies under it. The other environments of that process
    are played again in a new one before their next turn; one that then shows or earns something else fails.
    """

    def __init__(
        self,
        task: str,
        workers: int,
        time_limit: float = TIME_LIMIT,
        start_limit: float = START_SECONDS,
    ) -> None:
        """`task`: as `plugins.find_task` takes it. The limits are seconds: of a turn or a close, and of a start."""
        self._processes = [
            EnvProcess(task, time_limit, max(start_limit, time_limit)) for _ in range(workers)
        ]
        self._handles = itertools.count()
        self._records: dict[int, Record] = {}

    @property
    def pids(self) -> list[int]:
        """Of the processes that there are."""
        return [process.pid for process in self._processes if process.pid is not None]

    def start(self, samples: Sequence[Sample]) -> list[tuple[int, StartResult]]:
        handles = [next(self._handles) for _ in samples]
        records = deal(handles, samples, self._records, len(self._processes))
        self._records |= records
        try:
            shown = self._played(dict.fromkeys(handles))
        except BaseException:  # nobody else knows the handles
            for handle in handles:
                del self._records[handle]
            raise
        return [(handle, shown[handle]) for handle in handles]

    def step(self, said: Mapping[int, str]) -> dict[int, StepResult]:
        return self._played(said)

    def close(self, handles: Iterable[int]) -> None:
        own = {h: r for h in handles if (r := self._records.get(h)) is not None}
        try:
            closed = self._exchange({h: Call(h, r.sample, 0, None) for h, r in own.items()})
        finally:
            for handle in own:
                del self._records[handle]
        warn(closed.values())

    def shut(self) -> None:
        """Kills the processes; environments that are open are not closed first."""
        self._end_all()
        self._records.clear()

    def _played(self, said: Mapping[int, str | None]) -> dict[int, Any]:
        """What each answers; None is its start."""
        records = {handle: self._records[handle] for handle in said}
        failed = {h: r.failed for h, r in records.items() if r.failed is not None}
        going = {h: r.next(h, said[h]) for h, r in records.items() if r.failed is None}
        return failed | self._exchange(going)

    def _exchange(self, waiting: dict[int, Call]) -> dict[int, Any]:
        """What each call is answered. A call of which nothing is left to do, such as closing what is gone, has none."""
        going = _Round(waiting)
        try:
            for number, process in enumerate(self._processes):
                if process.died:
                    self._forget(number)
                self._tell(number, going)
            while busy := [n for n, process in enumerate(self._processes) if process.calls]:
                self._wait(busy)
                for number in busy:
                    self._hear(number, going)
        except BaseException:  # in the middle of things: nothing that stands is known
            self._end_all()
            raise
        return going.answers

    def _tell(self, number: int, going: _Round) -> None:
        """All calls to that process, each behind what it takes for its environment to stand."""
        calls: list[Call] = []
        for handle, call in list(going.waiting.items()):
            record = self._records[handle]
            if record.process != number:
                continue
            if record.stands:
                calls.append(call)
            elif call.said is None:
                del going.waiting[handle]
            else:
                calls += [*record.before(handle), call]
        if calls:
            self._processes[number].tell(calls)

    def _wait(self, busy: Sequence[int]) -> None:
        """Until one of them may have something to say, or runs over its time."""
        left = min(self._processes[n].deadline for n in busy) - time.monotonic()
        pipes = [pipe for n in busy if (pipe := self._processes[n].pipe) is not None]
        wait(pipes, min(max(left, 0.0), LOOK_SECONDS))

    def _hear(self, number: int, going: _Round) -> None:
        """What that process has to say, or its loss."""
        process = self._processes[number]
        try:
            reply = process.hear()
        except Lost as lost:
            self._blame(process.blamed, lost, going)
            self._forget(number)
            self._tell(number, going)
            return
        if reply is None or reply.call.handle not in going.waiting:
            return  # what is left of one that failed as it was played again
        answer = self._records[reply.call.handle].note(reply)
        if isinstance(answer, EnvFailure) or not reply.call.again:
            going.answer(reply.call.handle, answer, reply.digest)

    def _blame(self, calls: Sequence[Call], lost: Lost, going: _Round) -> None:
        for call in calls:
            if call.handle in going.waiting:
                failed = lost.failed(call)
                self._records[call.handle].failed = failed
                going.answer(call.handle, failed)

    def _forget(self, number: int) -> None:
        """Ends the process; what was in it stands no more."""
        self._processes[number].end()
        for record in self._records.values():
            record.stands = record.stands and record.process != number

    def _end_all(self) -> None:
        for number in range(len(self._processes)):
            self._forget(number)
