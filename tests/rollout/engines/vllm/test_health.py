"""Looks at the health of a server while a call to it waits, with scripted answers to the looks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx
import pytest

from vlrft.rollout.engines.vllm import health
from vlrft.rollout.engines.vllm.health import FailedLooks, HealthWatch

Look = int | Exception | None  # the status, how the connection fails, or None: no answer
REFUSED = httpx.ConnectError("refused")


class Health:
    """A server whose looks are answered as scripted, and whose calls are answered when the script has ended."""

    def __init__(self, script: Sequence[Look]) -> None:
        self.script, self.done = list(script), asyncio.Event()
        self.watch = HealthWatch(
            httpx.AsyncClient(base_url="http://a", transport=httpx.MockTransport(self._look))
        )

    async def _look(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/health"
        if not self.script:
            self.done.set()
            return httpx.Response(200)
        look = self.script.pop(0)
        if look is None:
            await asyncio.Event().wait()
        if isinstance(look, Exception):
            raise look
        return httpx.Response(look or 0)

    async def call(self) -> str:
        await self.done.wait()
        return "answer"


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LOOK_SECONDS", 0.01)


def outcomes(script: Sequence[Look], calls: int = 1) -> list[object]:
    """The results or errors of calls that wait together."""

    async def wait() -> list[object]:
        server = Health(script)
        waits = (server.watch.wait_for(server.call) for _ in range(calls))
        return list(await asyncio.gather(*waits, return_exceptions=True))

    return asyncio.run(asyncio.wait_for(wait(), 60))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([503, 503], "/health answers 503: its engine is dead"),
        ([200, 503, 200, REFUSED, REFUSED], "/health failed (ConnectError: refused)"),
        ([None, 200, 500, REFUSED], "/health answers 500"),
    ],
)
def test_two_failed_looks_in_a_row_end_every_call_that_waits(
    script: Sequence[Look], reason: str
) -> None:
    for outcome in outcomes(script, calls=3):
        assert isinstance(outcome, FailedLooks)
        assert str(outcome) == reason


@pytest.mark.parametrize(
    "script",
    [[200, 200, 200], [503, 200, 503, 200], [None, None, None], [REFUSED, None, REFUSED, 404, 503]],
)
def test_a_server_that_is_busy_or_fails_a_single_look_is_waited_for(
    script: Sequence[Look],
) -> None:
    assert outcomes(script, calls=3) == ["answer"] * 3


def test_looks_end_with_the_last_call_and_begin_again_with_the_next() -> None:
    async def wait() -> None:
        server, before = Health([503, 503, 503, 503, 503]), asyncio.all_tasks()
        with pytest.raises(FailedLooks):
            await server.watch.wait_for(server.call)
        assert len(server.script) == 3
        server.done.set()
        assert await server.watch.wait_for(server.call) == "answer"
        while asyncio.all_tasks() != before:  # the task of the looks is gone
            await asyncio.sleep(0)
        server.done.clear()
        with pytest.raises(FailedLooks):
            await server.watch.wait_for(server.call)
        assert len(server.script) == 1

    asyncio.run(asyncio.wait_for(wait(), 60))


def test_the_error_of_a_call_is_its_own() -> None:
    async def fail() -> None:
        raise ValueError("its own")

    async def wait() -> None:
        await Health([]).watch.wait_for(fail)

    with pytest.raises(ValueError, match="its own"):
        asyncio.run(wait())
