"""The choice of a host for a task, and the hosts that the tasks of a run share."""

from __future__ import annotations

from vlrft.envs.host import Host, env_factory
from vlrft.envs.in_process import InProcess
from vlrft.envs.pool import TIME_LIMIT, EnvPool
from vlrft.plugins.references import absolute_reference
from vlrft.schema import Task
from vlrft.workers.memory import default_limit


def build_host(
    task: Task,
    *,
    workers: int,
    time_limit: float | None,
    reference: str,
    memory_gb: float | None = None,
) -> Host:
    """A host for the task's environments.

    `workers`: worker processes, 0 for this process; a task without an environment needs none. `time_limit`: seconds of a
    turn in a worker; `memory_gb`: resident memory of a worker, None: half of the machine's. `reference`: the task's name or path, from which a worker loads it (see `plugins.find_task`).
    """
    if workers == 0 or task.env is None:
        return InProcess(env_factory(task))
    full_reference = f"{reference}:task" if reference.endswith(".py") else reference
    memory = default_limit() if memory_gb is None else int(memory_gb * 2**30)
    return EnvPool(
        absolute_reference(full_reference), workers, time_limit or TIME_LIMIT, memory=memory
    )


class EnvRegistry:
    """The hosts of a run. Tasks that differ only in their split share one, with its processes and their caches."""

    def __init__(self) -> None:
        self._hosts: dict[tuple[str, int, float | None, float | None], Host] = {}

    def host_for(
        self,
        task: Task,
        *,
        workers: int,
        time_limit: float | None,
        reference: str,
        memory_gb: float | None = None,
    ) -> Host:
        """See `build_host`."""
        key = reference, workers, time_limit, memory_gb
        if key not in self._hosts:
            self._hosts[key] = build_host(
                task,
                workers=workers,
                time_limit=time_limit,
                reference=reference,
                memory_gb=memory_gb,
            )
        return self._hosts[key]

    def shutdown(self) -> None:
        """Shuts all hosts down; they can be used again."""
        for host in self._hosts.values():
            host.shutdown()
