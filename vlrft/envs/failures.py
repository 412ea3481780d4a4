"""The failure of one environment, and the wording of its message."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class EnvFailure:
    """The failure of an environment that raised, hung or died, in place of its result; its episode ends."""

    message: str  # one line: the sample, what happened and when, what to do


def env_of(sample: str) -> str:
    """The subject of a failure's message. `sample`: its id."""
    return f"sample {sample}: its environment"


def moment_of(turn: int) -> str:
    """The time of a failure, for its message; turn 0 is the start."""
    return f"in turn {turn}" if turn else "as it started"


def warn_of_failures(closed: Iterable[EnvFailure | None]) -> None:
    """One RuntimeWarning for all environments that failed while being closed; every item of `closed` is consumed first."""
    messages = [failure.message for failure in closed if failure is not None]
    if messages:
        more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
        warnings.warn(f"{messages[0]}{more}", RuntimeWarning, stacklevel=3)
