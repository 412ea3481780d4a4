"""Hosts of environments: in this process, one after another, or in worker processes, many at a time.

    host = build_host(task, workers=4, time_limit=None, reference="./birds.py:task")
    (handle, first), = host.start([sample])          # Observation | EnvFailure
    results = host.step({handle: "left"})            # {handle: Step | EnvFailure}
    host.close([handle])

An error of an environment ends its own episode, as an `EnvFailure`, and no other. In a worker process an environment may
also hang, crash, or kill its process; the other environments of that process are then restored in a new one by replaying
their episodes up to the current turn.
"""

from __future__ import annotations

from vlrft.envs.failures import EnvFailure
from vlrft.envs.host import Host, SingleTurn, StartResult, StepResult
from vlrft.envs.hosts import EnvRegistry, build_host
from vlrft.envs.in_process import InProcess
from vlrft.envs.pool import EnvPool

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
