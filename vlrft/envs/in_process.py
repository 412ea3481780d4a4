"""Environments in this process, stepped one after another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import RLock
from typing import TypeVar

from vlrft.envs.failures import EnvFailure, env_of, moment_of, warn_of_failures
from vlrft.envs.host import EnvFactory, StartResult, StepResult
from vlrft.envs.result_check import check_observation, check_step
from vlrft.plugins.attribution import describe_raise
from vlrft.plugins.process_state import keeping_process_state
from vlrft.schema import Env, Observation, Sample, Step

T = TypeVar("T", Observation, Step)
R = TypeVar("R")


@dataclass
class _LocalEnv:
    sample: str  # its id
    env: Env | None = None
    turns: int = 0  # that were started
    failure: EnvFailure | None = None


class LocalEnvs:
    """The open environments of one process, under handles that the caller chooses. An exception becomes an EnvFailure."""

    def __init__(self, make_env: EnvFactory) -> None:
        self._make_env = make_env
        self._open: dict[int, _LocalEnv] = {}

    @property
    def handles(self) -> list[int]:
        return list(self._open)

    def start(self, handle: int, sample: Sample) -> StartResult:
        local = self._open[handle] = _LocalEnv(sample.id)

        def make_and_start() -> Observation:
            local.env = self._make_env(sample)
            return local.env.start()

        return _catch_failure(local, make_and_start, Observation, check_observation)

    def step(self, handle: int, text: str) -> StepResult:
        """Raises KeyError for a handle that is not open."""
        local = self._open[handle]
        if local.failure is not None:
            return local.failure
        assert local.env is not None
        env, local.turns = local.env, local.turns + 1
        return _catch_failure(local, lambda: env.step(text), Step, check_step)

    def close(self, handle: int) -> EnvFailure | None:
        """Returns the failure of the environment's `close`, if it raised."""
        local = self._open.pop(handle, None)
        if local is None or local.env is None:
            return None
        try:
            local.env.close()
        except KeyboardInterrupt:
            raise
        except BaseException as e:
            return EnvFailure(f"{env_of(local.sample)} {describe_raise(e)} as it was closed")
        return None


def _catch_failure(
    local: _LocalEnv, call: Callable[[], T], kind: type[T], check: Callable[[T], T]
) -> T | EnvFailure:
    """The call's result. Any exception but Ctrl-C, also SystemExit, becomes the environment's failure, and so does a
    result of another kind or one that `check` refuses with ValueError."""
    try:
        result = call()
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        problem = describe_raise(e)
    else:
        try:
            if isinstance(result, kind):
                return check(result)
            problem = f"returned {type(result).__name__}, not vlrft.schema.{kind.__name__},"
        except ValueError as e:
            problem = str(e)
    local.failure = EnvFailure(f"{env_of(local.sample)} {problem} {moment_of(local.turns)}")
    return local.failure


class InProcess:
    """A `vlrft.envs.Host` in this process: one call at a time, in the thread of its caller, so that an environment that
    is slow holds up the others. Ctrl-C passes through."""

    def __init__(self, make_env: EnvFactory) -> None:
        self._envs = LocalEnvs(make_env)
        self._handles = itertools.count()
        self._lock = RLock()

    def start(self, samples: Sequence[Sample]) -> list[tuple[int, StartResult]]:
        handles = [next(self._handles) for _ in samples]
        try:
            with self._lock, keeping_process_state():
                return [
                    (h, self._envs.start(h, sample))
                    for h, sample in zip(handles, samples, strict=True)
                ]
        except BaseException:  # the caller never learns the handles
            self.close(handles)
            raise

    def begin(self, samples: Sequence[Sample]) -> list[tuple[int, Future[StartResult]]]:
        return [(handle, _done(result)) for handle, result in self.start(samples)]

    def step(self, texts: Mapping[int, str]) -> dict[int, StepResult]:
        with self._lock, keeping_process_state():
            return {handle: self._envs.step(handle, text) for handle, text in texts.items()}

    def submit(self, handle: int, text: str) -> Future[StepResult]:
        try:
            return _done(self.step({handle: text})[handle])
        except KeyError as e:
            future: Future[StepResult] = Future()
            future.set_exception(e)
            return future

    def close(self, handles: Iterable[int]) -> None:
        with self._lock:
            closed = [self._envs.close(handle) for handle in handles]
        warn_of_failures(closed)

    def shutdown(self) -> None:
        self.close(self._envs.handles)


def _done(result: R) -> Future[R]:
    future: Future[R] = Future()
    future.set_result(result)
    return future
