"""An asyncio loop in a thread of its own: the trainer's threads ask, hundreds of answers are waited for in one place."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
CANCEL_SECONDS = 0.5  # for a task to end, after which it is cancelled again


class LoopThread:
    """Runs coroutines until it is closed."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine. May be called from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for a coroutine; where the wait is interrupted, the coroutine is cancelled."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, last: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Cancels all that runs, runs a last coroutine, and ends the thread."""
        if self._thread.is_alive():
            self.run(_cancel_others())
            self.run(last())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


async def _cancel_others() -> None:
    """Until all have ended: `asyncio.wait_for` before Python 3.12 loses a cancellation that comes with its result, and its task goes on."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in others:
            task.add_done_callback(see_error)
            task.cancel()
        await asyncio.wait(others, timeout=CANCEL_SECONDS)


def see_error(task: asyncio.Task[Any]) -> None:
    """Callback of a task whose error nobody may wait for: asyncio would report it as never retrieved."""
    if not task.cancelled():
        task.exception()
