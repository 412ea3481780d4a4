"""One server: calls of its routes with time limits, and whether it can be used."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, runtime_checkable

import httpx

from vlrft.rollout.engines.vllm.health import FailedLooks, HealthWatch
from vlrft.rollout.engines.vllm.version import WINDOW, is_supported
from vlrft.schema.errors import ServerError
from vlrft.schema.short_message import short_message

PROBE_SECONDS = 10.0  # for a route that answers at once
LOOK_SECONDS = 0.25  # between looks at a server that starts
SHOWN_ANSWER = 300  # characters of an error's text


class LostServer(ServerError):
    """A server that does not answer, or fails at something that another one, or the same one after a restart, can do."""


class DeadServer(LostServer):
    """A server that answers nothing again before a restart, by its health."""


class Refused(ServerError):
    """A request that the server does not take, and would not take again. `status` is that of HTTP."""

    def __init__(self, message: str, status: int, answer: dict[str, Any]) -> None:
        super().__init__(message)
        self.status, self.answer = status, answer


class State(Enum):
    STARTING = "is starting"
    READY = "is ready"
    UPDATING = "loads weights"
    LOST = "is lost"
    GIVEN_UP = "is given up"


@runtime_checkable
class Group(Protocol):
    """This process and the workers of a server: see `server_group.ServerGroup`."""

    def send(self, tensors: Iterable[Any]) -> None: ...

    def close(self) -> None: ...


class Server:
    """A server of vLLM at an address."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url.rstrip("/")
        self.state = State.STARTING
        self.reason = ""  # of a server that is lost
        self.log: Path | None = None  # of a server that the run has started
        self.since = self.heard_at = monotonic()  # its state; it answered last, or was idle
        self.in_flight = 0  # completions of this rank
        self.taken = 0  # completions so far
        self.epoch = 0  # how often it was lost
        self.sent_bytes = 0  # in the bodies of requests of this rank
        self.cut = asyncio.Event()  # its completions are not waited for any longer
        self.base = (
            ""  # version of the base that it has, and name of its adapter, where an adapter is sent
        )
        self.adapter: str | None = None
        self.group: Group | None = None  # with its workers, where weights are broadcast
        self._http = httpx.AsyncClient(
            base_url=self.url,
            timeout=None,  # `ask` has a limit for each call as a whole
            trust_env=False,  # servers are not behind a proxy
            # A connection that is kept is closed by the server after seconds, in the middle of the next request if need be.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )
        self._health = HealthWatch(self._http)

    def __str__(self) -> str:
        return f"{self.name} at {self.url}"

    async def post(
        self, path: str, seconds: float, body: Any = None, **query: str
    ) -> dict[str, Any]:
        """The answer to a POST. Raises LostServer for one that does not come in time or fails, and where the server is found dead
        meanwhile; Refused for a request that the server refuses."""
        return await self._ask("POST", path, seconds, body, query)

    async def get(self, path: str, seconds: float = PROBE_SECONDS) -> dict[str, Any]:
        """The answer to a GET; raises as `post`."""
        return await self._ask("GET", path, seconds, None, {})

    async def _ask(
        self, method: str, path: str, seconds: float, body: Any, query: dict[str, str]
    ) -> dict[str, Any]:
        request = self._http.build_request(method, path, json=body, params=query or None)
        self.sent_bytes += len(request.content)
        try:
            answering = self._health.wait_for(lambda: self._http.send(request))
            answer = await asyncio.wait_for(answering, seconds)
        except (TimeoutError, asyncio.TimeoutError):
            raise LostServer(f"{self}: no answer from {path} within {seconds:g} s") from None
        except FailedLooks as e:
            raise DeadServer(f"{self}: no answer from {path}, and {e}") from None
        except httpx.HTTPError as e:
            raise LostServer(
                f"{self}: {path} failed ({short_message(e) or type(e).__name__})"
            ) from None
        self.heard_at = monotonic()
        text = answer.text[:SHOWN_ANSWER]
        if answer.status_code >= 500:
            raise LostServer(f"{self}: {path} failed with {answer.status_code}: {text}")
        try:
            content = answer.json() if answer.content else {}
        except ValueError:
            content = {}
        content = content if isinstance(content, dict) else {}
        if answer.status_code >= 400:
            message = f"{self}: {path} was refused with {answer.status_code}: {text}"
            raise Refused(message, answer.status_code, content)
        return content

    async def wait_ready(self, seconds: float) -> None:
        """Waits until the server is healthy, and checks its version. Raises LostServer, or ServerError for another version."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            try:
                await self.get("/health", min(PROBE_SECONDS, seconds))
                break
            except LostServer as e:
                if asyncio.get_running_loop().time() >= deadline:
                    raise LostServer(f"{self} was not ready within {seconds:g} s: {e}") from None
            await asyncio.sleep(LOOK_SECONDS)
        version = str((await self.get("/version")).get("version", ""))
        if not is_supported(version):
            raise ServerError(
                f"{self} is vLLM {version or 'of an unknown version'}; supported is {WINDOW}, whose routes vlrft calls"
            )

    def leave_group(self) -> None:
        """Ends the group with the server's workers; the next broadcast makes a new one."""
        group, self.group = self.group, None
        if group is not None:
            group.close()

    async def close(self) -> None:
        """Closes the connections."""
        self.leave_group()
        await self._http.aclose()
