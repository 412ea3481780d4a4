"""The interface of a host of environments, and the environment of a task that has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol, runtime_checkable

from vlrft.envs.failures import EnvFailure
from vlrft.schema import Env, Observation, Sample, Step, Task

StartResult = Observation | EnvFailure
StepResult = Step | EnvFailure
EnvFactory = Callable[[Sample], Env]


@runtime_checkable
class Host(Protocol):
    """Owner of open environments, addressed by handles. A failed environment returns the same failure until closed.

    Any thread may call it. `start` and `step` wait for all results; `begin` and `submit` do not wait, and results of
    either way are equal. A host that runs environments in the calling thread returns futures that are done.
    """

    def start(self, samples: Sequence[Sample]) -> list[tuple[int, StartResult]]:
        """Opens an environment for each sample: its handle, which is never used again, and its first observation."""
        ...

    def begin(self, samples: Sequence[Sample]) -> list[tuple[int, Future[StartResult]]]:
        """`start` without waiting: the handles, and the first observations as they become ready."""
        ...

    def step(self, texts: Mapping[int, str]) -> dict[int, StepResult]:
        """Passes each environment the policy's text of one turn. Raises KeyError for a handle that is not open."""
        ...

    def submit(self, handle: int, text: str) -> Future[StepResult]:
        """`step` of one environment without waiting; the future raises KeyError for a handle that is not open."""
        ...

    def close(self, handles: Iterable[int]) -> None:
        """Closes environments; handles that are not open are ignored. A call that one of them is working on is cut off,
        and its future cancelled. An error while closing becomes a RuntimeWarning."""
        ...

    def shutdown(self) -> None:
        """Releases all open environments and processes. The host can be used again afterwards."""
        ...


class SingleTurn:
    """The environment of a task without one: shows the sample and takes one answer."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample

    def start(self) -> Observation:
        shown = self.sample
        return Observation(
            messages=shown.shown_messages, images=shown.shown_images, videos=shown.shown_videos
        )

    def step(self, text: str) -> Step:
        return Step()

    def close(self) -> None:
        """Nothing to release."""


def env_factory(task: Task) -> EnvFactory:
    """The function that makes the task's environments."""
    return task.env or SingleTurn
