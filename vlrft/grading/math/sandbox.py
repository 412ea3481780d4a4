"""Calls a function within bounds of time and memory; breaking one is an answer, not an error.

For what hostile text can make run forever: algebra, foreign parsers. The work is done by a `Worker`
process, so any thread may call; one call runs at a time, the others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from vlrft.schema.errors import PluginError, WorkerDied, WorkerTimeout
from vlrft.workers.worker import Worker

T = TypeVar("T")

MEMORY_GB = 2.0  # of address space; sympy needs a tenth of that


class SandboxedWorker:
    """A worker whose calls give None when they take too long, too much memory or too deep a
    recursion, or end their process."""

    def __init__(self, memory_gb: float = MEMORY_GB) -> None:
        self.worker = Worker(memory_gb=memory_gb)

    def call(
        self,
        function: Callable[..., T],
        arguments: tuple[Any, ...],
        seconds: float,
        needs: Sequence[str] = (),
    ) -> T | None:
        """What the module-level function returns.

        `needs`: references into the libraries it uses (`mpmath:mp`), imported before the time
        starts. Raises ImportError naming the extra where one is missing, and what the function
        raises.
        """
        for _ in range(2):  # an idle worker may have been killed from outside
            try:
                found: T = self.worker.call(function, *arguments, seconds=seconds, loads=needs)
                return found
            except (WorkerTimeout, MemoryError, RecursionError):
                return None
            except WorkerDied:
                continue
            except PluginError as e:
                raise ImportError(f"{e}; grading mathematics: pip install 'vlrft[math]'") from e
        return None

    def close(self) -> None:
        """Ends the process; a later call starts another."""
        self.worker.close()
