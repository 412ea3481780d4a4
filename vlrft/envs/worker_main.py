"""The main loop of a worker process: makes environments, steps them one call after another, and sends each result.

It is started by `process.EnvProcess`, and ends with its parent process.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from PIL.ExifTags import Base

from vlrft.envs.failures import EnvFailure, env_of, moment_of
from vlrft.envs.host import env_factory
from vlrft.envs.in_process import LocalEnvs
from vlrft.plugins.find import find_task
from vlrft.schema import Observation, Sample, Step
from vlrft.schema.short_message import short_message
from vlrft.schema.terminal import guard_streams
from vlrft.workers.subprocess_pipe import START_SECONDS, end_session
from vlrft.workers.worker_main import GRACE_SECONDS, messages

if TYPE_CHECKING:
    from PIL.Image import Image


class Call(NamedTuple):
    """One call to one environment: start, step or close."""

    handle: int
    sample: str  # its id
    turn: int  # 0: the start
    payload: bytes | str | None  # start: the pickled sample; step: the policy's text; close: None
    replay: bool = False  # a process that has ended already answered it; only the digest is needed

    @property
    def moment(self) -> str:
        return "as it was closed" if self.payload is None else moment_of(self.turn)

    def limit(self, seconds: float, start_seconds: float) -> float:
        """Seconds that the call may take."""
        return start_seconds if isinstance(self.payload, bytes) else seconds


def serve(descriptor: int, parent: int, task: str, seconds: float, start_seconds: float) -> None:
    """Sends None, or the reason why the task cannot be loaded; then one result per call until the parent process ends. It then
    closes the open environments, and ends with all processes that they have started."""
    os.dup2(2, 1)  # output of an environment must not mix with the command's results
    guard_streams()
    pipe: Connection[Any, Any] = Connection(descriptor)
    with suppress(OSError, KeyboardInterrupt), open(os.devnull, "w") as silent:
        try:
            with _exit_after(max(START_SECONDS, seconds), silent):
                envs = LocalEnvs(env_factory(find_task(task)))
        except BaseException as e:
            pipe.send_bytes(pickle.dumps(short_message(e)))
            return
        with suppress(ConnectionError):  # the parent has ended before the result
            pipe.send_bytes(pickle.dumps(None))
            for message in messages(pipe, parent):
                calls: list[Call] = pickle.loads(message)
                for call in calls:
                    with _exit_after(call.limit(seconds, start_seconds), silent):
                        result = _run_and_pickle(envs, call)
                    pipe.send_bytes(result)
        for handle in envs.handles:
            with _exit_after(seconds, silent):
                envs.close(handle)
        end_session()


def digest(result: object) -> bytes:
    """A hash of the observation, rewards and scores of a result. Anchors are left out: they may be of any type."""
    sha256 = hashlib.sha256()
    observation = result
    if isinstance(result, Step):
        values = result.reward, sorted(result.scores.items()), result.valid, result.done
        sha256.update(repr(values).encode())
        observation = result.observation
    if isinstance(observation, Observation):
        texts = observation.messages, observation.follows, observation.shown
        sha256.update(repr(texts).encode())
        for image in observation.images:
            sha256.update(image.tobytes())
            sha256.update(repr(_display(image)).encode())
        for video in observation.videos:
            sha256.update(repr((video.size, video.indices, video.seconds)).encode())
            sha256.update(video.pictures.tobytes())
    return sha256.digest()


def _display(image: Image) -> tuple[object, ...]:
    """The properties that, with its pixels, decide how an image is shown; a pixel of some modes is an index into the palette."""
    transparency = image.info.get("transparency")
    orientation = image.getexif().get(Base.Orientation)
    return image.mode, image.size, image.getpalette(None), transparency, orientation


def _run_and_pickle(envs: LocalEnvs, call: Call) -> bytes:
    """The pickled pair (digest, pickled result). The digest of a failure is empty, and so is the result of a replay."""
    try:
        result = _run(envs, call)
        if isinstance(result, EnvFailure):
            return pickle.dumps((b"", pickle.dumps(result)))
        return pickle.dumps((digest(result), b"" if call.replay else pickle.dumps(result)))
    except BaseException as e:
        problem = f"{env_of(call.sample)} cannot run in another process: {short_message(e)}"
        return pickle.dumps((b"", pickle.dumps(EnvFailure(problem))))


def _run(envs: LocalEnvs, call: Call) -> object:
    if call.payload is None:
        return envs.close(call.handle)
    if isinstance(call.payload, str):
        return envs.step(call.handle, call.payload)
    sample: Sample = pickle.loads(call.payload)
    return envs.start(call.handle, sample)


@contextmanager
def _exit_after(seconds: float, silent: TextIO) -> Iterator[None]:
    """Ends this process some time after the limit, in case the parent process is no longer there to end it."""
    faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True, file=silent)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
