"""Environments in worker processes that run in parallel; a process that is lost is replaced."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from vlrft.envs.failures import EnvFailure, warn_of_failures
from vlrft.envs.host import StartResult, StepResult
from vlrft.envs.journal import EpisodeRecord, new_records
from vlrft.envs.process import EnvProcess, ProcessLost
from vlrft.envs.worker_main import Call
from vlrft.schema import Observation, Sample, Step
from vlrft.workers.subprocess_pipe import START_SECONDS

if TYPE_CHECKING:
    from PIL.Image import Image

TIME_LIMIT = 60.0  # seconds of a turn unless the config says otherwise
CHECK_SECONDS = 0.2  # between checks of a silent process: of its memory, and whether it lives


@dataclass
class _Exchange:
    """Calls to many environments, one each, and their results so far."""

    pending: dict[int, Call]
    results: dict[int, Any] = field(default_factory=dict[int, Any])
    images: dict[bytes, tuple[Image, ...]] = field(default_factory=dict[bytes, "tuple[Image, ...]"])

    def finish(self, handle: int, result: Any, digest: bytes = b"") -> None:
        del self.pending[handle]
        self.results[handle] = self._share_images(result, digest)

    def _share_images(self, result: Any, digest: bytes) -> Any:
        """Equal images of several environments become one object, which is then processed once."""
        observation = result.observation if isinstance(result, Step) else result
        if not isinstance(observation, Observation) or not observation.images:
            return result
        images = self.images.setdefault(digest, observation.images)
        observation = replace(observation, images=images)
        return replace(result, observation=observation) if isinstance(result, Step) else observation


class EnvPool:
    """A `vlrft.envs.Host` with the environments of one task in worker processes. Not thread-safe.

    Environments of one sample share a process; a new sample goes to the process with the fewest running episodes. A call
    that exceeds its time limit is killed with its process and fails, as does a call whose process dies during it. The
    other environments of that process are replayed in a new one before their next turn; an environment whose replay gives
    another observation, reward or score fails.
    """

    def __init__(
        self,
        task: str,
        workers: int,
        time_limit: float = TIME_LIMIT,
        start_limit: float = START_SECONDS,
        memory: int | None = None,
    ) -> None:
        """`task`: a reference for `plugins.find_task`. `time_limit`: seconds of a turn or a close; `start_limit`: of a
        start. `memory`: bytes of resident memory of one process."""
        self._processes = [
            EnvProcess(task, time_limit, max(start_limit, time_limit), memory)
            for _ in range(workers)
        ]
        self._handles = itertools.count()
        self._records: dict[int, EpisodeRecord] = {}

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes."""
        return [process.pid for process in self._processes if process.pid is not None]

    def start(self, samples: Sequence[Sample]) -> list[tuple[int, StartResult]]:
        handles = [next(self._handles) for _ in samples]
        self._records |= new_records(handles, samples, self._records, len(self._processes))
        try:
            observations = self._run(dict.fromkeys(handles))
        except BaseException:  # the caller never learns the handles
            for handle in handles:
                del self._records[handle]
            raise
        return [(handle, observations[handle]) for handle in handles]

    def step(self, texts: Mapping[int, str]) -> dict[int, StepResult]:
        return self._run(texts)

    def close(self, handles: Iterable[int]) -> None:
        records = {h: r for h in handles if (r := self._records.get(h)) is not None}
        try:
            closed = self._exchange({h: Call(h, r.sample, 0, None) for h, r in records.items()})
        finally:
            for handle in records:
                del self._records[handle]
        warn_of_failures(closed.values())

    def shutdown(self) -> None:
        """Kills the processes; open environments are not closed first."""
        self._end_all()
        self._records.clear()

    def _run(self, texts: Mapping[int, str | None]) -> dict[int, Any]:
        """The result of each environment's step, or of its start where the text is None."""
        records = {handle: self._records[handle] for handle in texts}
        failures = {h: r.failure for h, r in records.items() if r.failure is not None}
        calls = {h: r.next_call(h, texts[h]) for h, r in records.items() if r.failure is None}
        return failures | self._exchange(calls)

    def _exchange(self, calls: dict[int, Call]) -> dict[int, Any]:
        """Sends the calls and waits for their results. A close of an environment that is in no process has no result."""
        exchange = _Exchange(calls)
        try:
            for number, process in enumerate(self._processes):
                if process.died:
                    self._end(number)
                self._send(number, exchange)
            while busy := [n for n, process in enumerate(self._processes) if process.calls]:
                self._wait(busy)
                for number in busy:
                    self._receive(number, exchange)
        except BaseException:  # interrupted: the state of the environments is unknown
            self._end_all()
            raise
        return exchange.results

    def _send(self, number: int, exchange: _Exchange) -> None:
        """Sends all pending calls of that process, each after the replay that its environment needs."""
        calls: list[Call] = []
        for handle, call in list(exchange.pending.items()):
            record = self._records[handle]
            if record.process != number:
                continue
            if record.live:
                calls.append(call)
            elif call.payload is None:
                del exchange.pending[handle]
            else:
                calls += [*record.replay_calls(handle), call]
        if calls:
            self._processes[number].send(calls)

    def _wait(self, busy: Sequence[int]) -> None:
        """Returns when one of the processes may have sent something or has exceeded its time limit."""
        remaining = min(self._processes[n].deadline for n in busy) - time.monotonic()
        pipes = [pipe for n in busy if (pipe := self._processes[n].pipe) is not None]
        wait(pipes, min(max(remaining, 0.0), CHECK_SECONDS))

    def _receive(self, number: int, exchange: _Exchange) -> None:
        """Takes the next reply of that process. If the process is lost, it is replaced."""
        process = self._processes[number]
        try:
            reply = process.receive()
        except ProcessLost as lost:
            self._fail(process.suspects, lost, exchange)
            self._end(number)
            self._send(number, exchange)
            return
        if reply is None or reply.call.handle not in exchange.pending:
            return  # a later call of an environment whose replay failed
        result = self._records[reply.call.handle].record(reply)
        if isinstance(result, EnvFailure) or not reply.call.replay:
            exchange.finish(reply.call.handle, result, reply.digest)

    def _fail(self, calls: Sequence[Call], lost: ProcessLost, exchange: _Exchange) -> None:
        for call in calls:
            if call.handle in exchange.pending:
                failure = lost.failure_of(call)
                self._records[call.handle].failure = failure
                exchange.finish(call.handle, failure)

    def _end(self, number: int) -> None:
        """Ends the process; its environments are no longer live."""
        self._processes[number].end()
        for record in self._records.values():
            record.live = record.live and record.process != number

    def _end_all(self) -> None:
        for number in range(len(self._processes)):
            self._end(number)
