"""Readers of results of hosts, and of the processes that gave them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from vlrft.envs import EnvFailure, Host
from vlrft.schema import Observation, Sample, Step

ECHO = "tests.fakes.envs:echo"


def start_all(host: Host, *samples: Sample) -> list[int]:
    """Handles of the environments that started."""
    return [handle for handle, first in host.start(samples) if isinstance(first, Observation)]


def comparable(result: object) -> Any:
    """All of a result that does not depend on the process that gave it; images as bytes."""
    if isinstance(result, Step):
        return result.reward, result.scores, result.valid, comparable(result.observation)
    if isinstance(result, Observation):
        return result.messages, [(i.mode, i.size, i.tobytes()) for i in result.images]
    return result


def message(result: object) -> str:
    assert isinstance(result, EnvFailure), result
    assert "\n" not in result.message
    return result.message


def pid_of(result: object) -> Any:
    assert isinstance(result, Step)
    assert result.observation is not None
    return result.observation.anchor


def has_ended(pid: int, seconds: float = 10) -> bool:
    """Waits until the process has ended; it may be a zombie."""
    state, end = Path(f"/proc/{pid}/stat"), time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if state.read_text().split()[2] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False
