"""Calls of functions with a limit on time and memory, whose result is None when they exceed it.

For functions that hostile text can make run forever: algebra, foreign parsers. They run in a `Worker` process, so any
thread may call them; one call runs at a time, the others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from vlrft.schema.errors import PluginError, WorkerDied, WorkerTimeout
from vlrft.workers.worker import Worker

T = TypeVar("T")

MEMORY_GB = 2.0  # resident; sympy needs a tenth of that


class SandboxedWorker:
    """A worker whose calls return None when they take too long, too much memory or too deep a recursion, or end their
    process."""

    def __init__(self, memory_gb: float = MEMORY_GB) -> None:
        self.worker = Worker(memory_gb=memory_gb)

    def call(
        self,
        function: Callable[..., T],
        arguments: tuple[Any, ...],
        seconds: float,
        needs: Sequence[str] = (),
    ) -> T | None:
        """Calls a module-level function in the worker and returns its result.

        `needs`: references into the libraries that it uses (`mpmath:mp`), imported before the time starts. Raises
        ImportError naming the extra where one is missing, and any exception that the function raises.
        """
        for _ in range(2):  # an idle worker may have been killed from outside
            try:
                result: T = self.worker.call(function, *arguments, seconds=seconds, loads=needs)
                return result
            except (WorkerTimeout, MemoryError, RecursionError):
                return None
            except WorkerDied:
                continue
            except PluginError as e:
                raise ImportError(f"{e}; grading mathematics: pip install 'vlrft[math]'") from e
        return None

    def close(self) -> None:
        """Ends the process; a later call starts another one."""
        self.worker.close()
