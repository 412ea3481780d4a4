"""Where environments live: in this process, one after another, or in processes of their own, many at a time.

    host = build_host(task, workers=4, time_limit=None, reference="./birds.py:task")
    (handle, shown), = host.start([sample])          # Observation | Failed
    answers = host.step({handle: "left"})            # {handle: Step | Failed}
    host.close([handle])

What an environment does wrong ends its own play, as a `EnvFailure`, and no other. In a process of its own it may also hang,
crash, or take its process down: those that lived beside it are brought back by playing them again up to where they
were.
"""

from __future__ import annotations

from vlrft.envs.in_process import (
    EnvFailure,
    Host,
    InProcess,
    SingleTurn,
    StartResult,
    StepResult,
    environment_of,
)
from vlrft.envs.pool import TIME_LIMIT, EnvPool
from vlrft.plugins.references import absolute
from vlrft.schema import Task

__all__ = [
    "EnvFailure",
    "EnvPool",
    "EnvRegistry",
    "Host",
    "InProcess",
    "SingleTurn",
    "StartResult",
    "StepResult",
    "build_host",
]


def build_host(task: Task, *, workers: int, time_limit: float | None, reference: str) -> Host:
    """`workers`: processes, 0 for this one. `time_limit`: seconds of a turn there. `reference`: how a process finds the
    task again, as `plugins.find_task` takes it. A task without an environment needs no process."""
    if workers == 0 or task.env is None:
        return InProcess(environment_of(task))
    named = f"{reference}:task" if reference.endswith(".py") else reference
    return EnvPool(absolute(named), workers, time_limit or TIME_LIMIT)


class EnvRegistry:
    """The hosts of a run: tasks that differ in their split alone share one, with its processes and what they know."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int, float | None], Host] = {}

    def of(self, task: Task, *, workers: int, time_limit: float | None, reference: str) -> Host:
        """See `build_host`."""
        key = reference, workers, time_limit
        if key not in self._open:
            self._open[key] = build_host(
                task, workers=workers, time_limit=time_limit, reference=reference
            )
        return self._open[key]

    def shut(self) -> None:
        """Ends what they hold; they can be used again."""
        for host in self._open.values():
            host.shut()
