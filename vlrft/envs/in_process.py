"""Environments that stand in this process, and what goes wrong in them; the interface of all hosts."""

from __future__ import annotations

import itertools
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from vlrft.schema import Env, Observation, Sample, Step, Task

MAX_MESSAGE = 200  # characters of a foreign error that our one line quotes


@dataclass(frozen=True)
class EnvFailure:
    """In place of an answer: the play is over, its environment cannot go on."""

    message: str  # one line: the sample, what happened and when, what to do


StartResult = Observation | EnvFailure
StepResult = Step | EnvFailure
Make = Callable[[Sample], Env]


class Host(Protocol):
    """Where environments live. An environment that failed answers with the same failure until it is closed."""

    def start(self, samples: Sequence[Sample]) -> list[tuple[int, StartResult]]:
        """A new environment a sample: its handle, which is never used again, and what it shows."""
        ...

    def step(self, said: Mapping[int, str]) -> dict[int, StepResult]:
        """One turn of each named environment. Raises KeyError for one that is not open."""
        ...

    def close(self, handles: Iterable[int]) -> None:
        """Forgets them; those that are not open are left alone. What goes wrong in it is a RuntimeWarning."""
        ...

    def shut(self) -> None:
        """Ends what the host holds: open environments, processes. It can be used again."""
        ...


class SingleTurn:
    """Shows the sample, takes one answer."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample

    def start(self) -> Observation:
        return Observation(messages=self.sample.messages, images=self.sample.images)

    def step(self, text: str) -> Step:
        return Step()

    def close(self) -> None:
        """Nothing is held."""


def environment_of(task: Task) -> Make:
    """What makes the task's environments."""
    return task.env or SingleTurn


@dataclass
class _LocalEnv:
    sample: str  # its id
    env: Env | None = None
    turns: int = 0  # that were begun
    failed: EnvFailure | None = None


class LocalEnvs:
    """The environments of a process under handles that the caller gives. What they raise becomes a Failed."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._open: dict[int, _LocalEnv] = {}

    @property
    def handles(self) -> list[int]:
        return list(self._open)

    def start(self, handle: int, sample: Sample) -> StartResult:
        own = self._open[handle] = _LocalEnv(sample.id)

        def begin() -> Observation:
            own.env = self._make(sample)
            return own.env.start()

        return _tried(own, begin, Observation)

    def step(self, handle: int, text: str) -> StepResult:
        """Raises KeyError for a handle that is not open."""
        own = self._open[handle]
        if own.failed is not None:
            return own.failed
        assert own.env is not None
        env, own.turns = own.env, own.turns + 1
        return _tried(own, lambda: env.step(text), Step)

    def close(self, handle: int) -> EnvFailure | None:
        """What went wrong in it."""
        own = self._open.pop(handle, None)
        if own is None or own.env is None:
            return None
        try:
            own.env.close()
        except Exception as e:
            return EnvFailure(f"{about(own.sample)} {_raised(e)} as it was closed")
        return None


T = TypeVar("T", Observation, Step)


def _tried(own: _LocalEnv, call: Callable[[], T], kind: type[T]) -> T | EnvFailure:
    try:
        found = call()
        if isinstance(found, kind):
            return found
        what = f"returned a {type(found).__name__}, not a vlrft.schema.{kind.__name__},"
    except Exception as e:
        what = _raised(e)
    own.failed = EnvFailure(f"{about(own.sample)} {what} {moment(own.turns)}")
    return own.failed


class InProcess:
    """The environments of this process, one after another. KeyboardInterrupt and SystemExit pass through."""

    def __init__(self, make: Make) -> None:
        self._standing = LocalEnvs(make)
        self._handles = itertools.count()

    def start(self, samples: Sequence[Sample]) -> list[tuple[int, StartResult]]:
        handles = [next(self._handles) for _ in samples]
        try:
            return [
                (h, self._standing.start(h, sample))
                for h, sample in zip(handles, samples, strict=True)
            ]
        except BaseException:  # nobody else knows the handles
            self.close(handles)
            raise

    def step(self, said: Mapping[int, str]) -> dict[int, StepResult]:
        return {handle: self._standing.step(handle, text) for handle, text in said.items()}

    def close(self, handles: Iterable[int]) -> None:
        warn([self._standing.close(handle) for handle in handles])

    def shut(self) -> None:
        self.close(self._standing.handles)


def about(sample: str) -> str:
    """How a message begins."""
    return f"sample {sample}: its environment"


def moment(turn: int) -> str:
    """0: the start."""
    return f"in turn {turn}" if turn else "as it started"


def warn(closed: Iterable[EnvFailure | None]) -> None:
    """Tells what went wrong as environments were closed, once all of them are."""
    messages = [failed.message for failed in closed if failed is not None]
    if messages:
        more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
        warnings.warn(f"{messages[0]}{more}", RuntimeWarning, stacklevel=3)


def told(error: Exception) -> str:
    """A foreign error in a few words."""
    first = (str(error).splitlines() or ["no message"])[0][:MAX_MESSAGE]
    return f"{type(error).__name__}: {first}"


def _raised(error: Exception) -> str:
    """What was raised, and where."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"raised {told(error)} ({Path(last.filename).name}:{last.lineno})"
