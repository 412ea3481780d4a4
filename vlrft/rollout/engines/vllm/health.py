"""The health of one server, which is looked at while calls wait for their answers.

vLLM's API process lives on when the process of its engine dies, and calls that wait for the engine, such as /update_weights, are never
answered. Its /health then answers 503, or the API process has closed its port. While the engine is busy, as in an update, /health
answers 200 at once, as it does not ask the engine. So a look that gets no answer in time proves nothing: it does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import httpx

from vlrft.rollout.engines.vllm.loop import see_error
from vlrft.schema.short_message import short_message

PATH = "/health"
LOOK_SECONDS = 2.0  # between looks, and for the answer to one; vLLM closes its port 5 s after the engine's death
FAILED_LOOKS = 2  # in a row, after which the server is dead; one connection may break
T = TypeVar("T")


class FailedLooks(Exception):
    """Looks at a server failed in a row. The message says how the first one did."""


class HealthWatch:
    """Looks at a server's health for as long as calls to it wait. All of them share the looks. Used by the thread of one loop."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._waiting = 0  # calls
        self._looks: asyncio.Task[str] | None = None

    async def wait_for(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of a call. Raises FailedLooks where the server is found dead before it answers."""
        answer = asyncio.ensure_future(call())
        answer.add_done_callback(see_error)
        if self._looks is None or self._looks.done():
            self._looks = asyncio.ensure_future(self._look_until_dead())
        looks = self._looks
        self._waiting += 1
        try:
            await asyncio.wait({answer, looks}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise FailedLooks(looks.result())
            return answer.result()
        finally:
            answer.cancel()
            self._waiting -= 1
            if not self._waiting and self._looks is not None:
                self._looks.cancel()
                self._looks = None

    async def _look_until_dead(self) -> str:
        """Returns how the first of the failed looks did."""
        failed: list[str] = []
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            reason = await self._look()
            failed = [*failed, reason] if reason else []
            if len(failed) == FAILED_LOOKS:
                return failed[0]

    async def _look(self) -> str:
        """How a look failed; empty where it did not."""
        try:
            answer = await asyncio.wait_for(self._http.get(PATH), LOOK_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):
            return ""
        except httpx.HTTPError as e:
            return f"{PATH} failed ({short_message(e) or type(e).__name__})"
        if answer.status_code == 503:
            return f"{PATH} answers 503: its engine is dead"
        return f"{PATH} answers {answer.status_code}" if answer.status_code >= 500 else ""
