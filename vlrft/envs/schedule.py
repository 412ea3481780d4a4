"""Which worker process makes which call next, and what follows from its reply or its loss. No thread and no waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from vlrft.envs.failures import EnvFailure
from vlrft.envs.jobs import Job, Worker
from vlrft.envs.journal import EpisodeRecord, new_records, unpickle_result
from vlrft.envs.process import EnvProcess, ProcessLost, Reply
from vlrft.envs.shared_images import SharedImages
from vlrft.envs.worker_main import Call
from vlrft.schema import Sample

Futures = Mapping[int, Future[Any]]  # of calls, by the handles of their environments


class Schedule:
    """Worker processes, the journals of their environments, and the calls that have no result yet.

    Each process works on one call at a time. A movable call whose process has worked on another one for longer than a
    replay would take is tried in an idle process: its episode is replayed there. If the results are those of the first
    time, the environment lives there from then on; if not, the try is forgotten and the call waits for its own process.
    """

    def __init__(
        self,
        processes: Sequence[EnvProcess],
        move_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`move_seconds`: a call waits for as long as its replay takes and for this, before it is tried elsewhere."""
        self.workers = [Worker(process) for process in processes]
        self.records: dict[int, EpisodeRecord] = {}
        self.settled: list[
            tuple[Future[Any], Any]
        ] = []  # results that their futures do not have yet
        self.close_failures: list[EnvFailure] = []  # of environments that live elsewhere
        self._move_seconds = move_seconds
        self._clock = clock
        self._jobs: dict[int, Job] = {}
        self._images = SharedImages()

    @property
    def busy(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.process.calls]

    def start(self, samples: Sequence[Sample], futures: Futures, movable: bool) -> None:
        """Adds an environment for each sample, and the call of its start."""
        self.records |= new_records(list(futures), samples, self.records, len(self.workers))
        self._add(dict.fromkeys(futures), futures, movable)

    def step(self, texts: Mapping[int, str], futures: Futures, movable: bool) -> None:
        """Adds a turn of each environment. Raises KeyError for a handle that is not open, and adds none then."""
        for handle in texts:
            if handle not in self.records:
                raise KeyError(handle)
            if handle in self._jobs:
                raise ValueError(f"environment {handle} still works on its last call")
        self._add(texts, futures, movable)

    def close(self, futures: Futures) -> None:
        """Adds a close of each environment; its other call is cut off. One that is in no process is closed at once."""
        for handle, future in futures.items():
            job, record = self._jobs.get(handle), self.records.get(handle)
            if job is not None and not job.closes:
                self._cut_off(job)
            if record is None or (job is not None and job.closes) or not record.live:
                self._forget([handle])
                self.settled.append((future, None))
            else:
                self._put(record, Job(Call(handle, record.sample, 0, None), future, False))

    def drop(self, handles: Iterable[int], forget: bool) -> None:
        """Cuts off the calls of these environments. `forget`: closes the environments too, without waiting for it."""
        for handle in handles:
            job, record = self._jobs.get(handle), self.records.get(handle)
            if job is not None:
                self._cut_off(job)
            if record is not None and (forget or (job is not None and job.closes)):
                if record.live:
                    self.workers[record.process].copies.append(Call(handle, record.sample, 0, None))
                self._forget([handle])

    def assign(self) -> None:
        """Gives each idle process its next call."""
        for worker in self.workers:
            if worker.process.calls:
                continue
            if worker.process.died:
                self._end(worker)
            worker.job = self._next(worker)
            calls, worker.copies = worker.copies, []
            if worker.job is not None:
                calls += self._calls(worker, worker.job)
            if calls:
                worker.since = self._clock()
                worker.process.send(calls)

    def receive(self, worker: Worker) -> None:
        """Takes the next reply of that process, if there is one. If the process is lost, it is replaced."""
        process, was_ready = worker.process, worker.process.ready
        try:
            reply = process.receive()
        except ProcessLost as lost:
            self._lose(worker, lost)
            return
        if reply is not None:
            self._take(worker, reply)
        if reply is not None or process.ready != was_ready:
            worker.since = self._clock()

    def end(self, error: BaseException | None = None) -> None:
        """Ends all processes. Calls without a result raise the error, or are cancelled."""
        for worker in self.workers:
            self._end(worker)
            worker.waiting.clear()
        for job in self._jobs.values():
            if error is None:
                job.future.cancel()
            elif not job.future.done():
                job.future.set_exception(error)
        self._jobs.clear()

    def _add(self, texts: Mapping[int, str | None], futures: Futures, movable: bool) -> None:
        for handle, text in texts.items():
            record = self.records[handle]
            if record.failure is not None:
                self.settled.append((futures[handle], record.failure))
            else:
                self._put(record, Job(record.next_call(handle, text), futures[handle], movable))

    def _put(self, record: EpisodeRecord, job: Job) -> None:
        self._jobs[job.call.handle] = job
        self.workers[record.process].waiting.append(job)

    def _next(self, worker: Worker) -> Job | None:
        """The job that an idle process takes: its own first one, or one that waits for a busy process."""
        while worker.waiting:
            job = worker.waiting.popleft()
            if not job.closes or self.records[job.call.handle].live:
                return job
            self._finish(job, None)
        now = self._clock()
        for other in self.busy:
            for job in other.waiting:
                record = self.records[job.call.handle]
                patience = self._move_seconds + record.seconds
                if job.movable and record.movable and now - other.since >= patience:
                    other.waiting.remove(job)
                    worker.home = other
                    return job
        return None

    def _calls(self, worker: Worker, job: Job) -> list[Call]:
        """The job's call, after the replay that its environment needs in that process."""
        handle, record = job.call.handle, self.records[job.call.handle]
        if record.live and worker.home is None:
            return [job.call]
        return [*record.replay_calls(handle), job.call]

    def _take(self, worker: Worker, reply: Reply) -> None:
        call, job = reply.call, worker.job
        if job is None or not job.contains(call):
            if call.payload is None and (failure := unpickle_result(reply)) is not None:
                self.close_failures.append(failure)
            return  # of a copy, or of a call after a replay that failed
        record = self.records[call.handle]
        if worker.home is not None and call.replay:
            if reply.digest != record.digests[call.turn]:
                self._return_home(worker, job, worker.home)
            return
        if worker.home is not None:
            self._move(record, worker, worker.home)
        if not call.replay:
            record.seconds += self._clock() - worker.since
        result = record.record(reply)
        if isinstance(result, EnvFailure) or not call.replay:
            worker.job = None
            self._finish(job, self._images.share(record.sample, result, reply.digest))

    def _move(self, record: EpisodeRecord, worker: Worker, home: Worker) -> None:
        """The environment lives in the worker's process from now on."""
        assert worker.job is not None
        if record.live:
            home.copies.append(Call(worker.job.call.handle, record.sample, 0, None))
        record.process, worker.home = self.workers.index(worker), None

    def _return_home(self, worker: Worker, job: Job, home: Worker) -> None:
        """The replay gave something else, or took the process down: the job waits for its own process, and stays."""
        record = self.records[job.call.handle]
        record.movable = False
        worker.copies.append(Call(job.call.handle, record.sample, 0, None))
        worker.job = worker.home = None
        home.waiting.appendleft(job)

    def _lose(self, worker: Worker, lost: ProcessLost) -> None:
        """The call that the process was working on fails with it, and all that wait for it if it could not start."""
        job, current = worker.job, worker.process.suspects[0]
        if job is not None and worker.home is not None and (current.replay or not lost.ready):
            self._return_home(worker, job, worker.home)
        elif job is not None and lost.ready and not job.contains(current):
            worker.waiting.appendleft(job)  # a copy took the process down
        elif job is not None:
            self._fail(job, lost.failure_of(current if lost.ready else job.call))
        if not lost.ready:
            for waiting in worker.waiting:
                self._fail(waiting, lost.failure_of(waiting.call))
            worker.waiting.clear()
        self._end(worker)

    def _fail(self, job: Job, failure: EnvFailure) -> None:
        self.records[job.call.handle].failure = failure
        self._finish(job, failure)

    def _finish(self, job: Job, result: Any) -> None:
        del self._jobs[job.call.handle]
        self.settled.append((job.future, result))
        if job.closes:
            self._forget([job.call.handle])

    def _forget(self, handles: Iterable[int]) -> None:
        for handle in handles:
            self.records.pop(handle, None)
        self._images.keep({record.sample for record in self.records.values()})

    def _cut_off(self, job: Job) -> None:
        """Removes the job; if a process works on it, that process is ended."""
        del self._jobs[job.call.handle]
        for worker in self.workers:
            if job in worker.waiting:
                worker.waiting.remove(job)
            if worker.job is job:
                self._end(worker)
        job.future.cancel()

    def _end(self, worker: Worker) -> None:
        """Ends the process; its environments are no longer live."""
        worker.process.end()
        worker.copies.clear()
        worker.job = worker.home = None
        number = self.workers.index(worker)
        for record in self.records.values():
            record.live = record.live and record.process != number
