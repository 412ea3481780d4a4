"""The other end of a process of environments: makes them, plays them one call after another, answers each call.

It runs in the process itself, started by `process.EnvProcess`, and ends with its caller.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TextIO

from vlrft.envs.in_process import EnvFailure, LocalEnvs, about, environment_of, moment, told
from vlrft.plugins.find import find_task
from vlrft.schema import Observation, Sample, Step
from vlrft.workers.subprocess_pipe import START_SECONDS
from vlrft.workers.worker_main import GRACE_SECONDS, messages


class Call(NamedTuple):
    """Something to do with one environment."""

    handle: int
    sample: str  # its id
    turn: int  # 0: the start
    said: bytes | str | None  # the sample, pickled; what the policy said; None: close it
    again: bool = False  # it was done in a process that is gone; the digest is enough

    @property
    def moment(self) -> str:
        return "as it was closed" if self.said is None else moment(self.turn)

    def limit(self, seconds: float, start_seconds: float) -> float:
        """How long it may take."""
        return start_seconds if isinstance(self.said, bytes) else seconds


def serve(descriptor: int, caller: int, task: str, seconds: float, start_seconds: float) -> None:
    """Says None, or why it cannot begin; then an answer a call until the caller is gone."""
    os.dup2(2, 1)  # what an environment prints is no result of the command
    pipe: Connection[Any, Any] = Connection(descriptor)
    with suppress(OSError, KeyboardInterrupt), open(os.devnull, "w") as silent:
        try:
            with _limited(START_SECONDS, silent):
                standing = LocalEnvs(environment_of(find_task(task)))
        except Exception as e:
            pipe.send_bytes(pickle.dumps(told(e)))
            return
        pipe.send_bytes(pickle.dumps(None))
        for message in messages(pipe, caller):
            calls: list[Call] = pickle.loads(message)
            for call in calls:
                with _limited(call.limit(seconds, start_seconds), silent):
                    answer = _answer(standing, call)
                pipe.send_bytes(answer)


def digest(answer: object) -> bytes:
    """Equal for answers that show and earn the same. Anchors do not count: they may be of any kind."""
    found = hashlib.sha256()
    shown = answer
    if isinstance(answer, Step):
        earned = answer.reward, sorted(answer.scores.items()), answer.valid, answer.done
        found.update(repr(earned).encode())
        shown = answer.observation
    if isinstance(shown, Observation):
        found.update(repr((shown.messages, shown.follows, shown.shown)).encode())
        for image in shown.images:
            found.update(repr((image.mode, image.size)).encode())
            found.update(image.tobytes())
    return found.digest()


def _answer(standing: LocalEnvs, call: Call) -> bytes:
    """(digest, pickled answer), pickled; the first is empty of what failed, the second of what was done before."""
    try:
        answer = _done(standing, call)
        if isinstance(answer, EnvFailure):
            return pickle.dumps((b"", pickle.dumps(answer)))
        return pickle.dumps((digest(answer), b"" if call.again else pickle.dumps(answer)))
    except Exception as e:
        what = f"{about(call.sample)} cannot be played in another process: {told(e)}"
        return pickle.dumps((b"", pickle.dumps(EnvFailure(what))))


def _done(standing: LocalEnvs, call: Call) -> object:
    if call.said is None:
        return standing.close(call.handle)
    if isinstance(call.said, str):
        return standing.step(call.handle, call.said)
    sample: Sample = pickle.loads(call.said)
    return standing.start(call.handle, sample)


@contextmanager
def _limited(seconds: float, silent: TextIO) -> Iterator[None]:
    """Ends the process a while after the time, when nobody is left to end it."""
    faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True, file=silent)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
