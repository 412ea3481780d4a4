"""Several servers: which of them takes the next completion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic

from vlrft.rollout.engines.vllm.server import Server, State
from vlrft.schema.errors import ServerError


class Pool:
    """Gives each completion to the ready server with the fewest; those of one prompt to the same one, which then computes the
    prompt once. Used by one thread."""

    def __init__(
        self, servers: Sequence[Server], most: int, on_lost: Callable[[Server], None]
    ) -> None:
        """`most`: completions of a server at once. `on_lost` is called when a server is lost."""
        self.servers, self.most, self.on_lost = servers, most, on_lost
        self.open = False  # closed while weights change
        self.changed = asyncio.Condition()

    async def take(self, preferred: Server | None) -> Server:
        """A server with room for a completion; give it back with `give`. Raises ServerError where every server is given up."""
        async with self.changed:
            await self.changed.wait_for(lambda: bool(self._free()) or self.hopeless)
            free = self._free()
            if not free:
                raise ServerError(self.describe())
            server = min(free, key=lambda s: (s is not preferred, s.in_flight, s.taken))
            if not server.in_flight:
                server.heard_at = monotonic()
            server.in_flight += 1
            server.taken += 1
            return server

    async def give(self, server: Server) -> None:
        """Ends a completion, however it ended."""
        async with self.changed:
            server.in_flight -= 1
            if server.in_flight:
                self.changed.notify()  # one that waits for room
            else:
                self.changed.notify_all()  # whoever waits for the server to be idle may be the last in the queue

    async def wait_idle(self, server: Server) -> None:
        """Waits until the server has no completion."""
        async with self.changed:
            await self.changed.wait_for(lambda: server.in_flight == 0)

    async def set_state(self, server: Server, state: State, reason: str = "") -> None:
        """Completions that a lost server was asked for are interrupted, so that others take them."""
        async with self.changed:
            before, server.state, server.reason = server.state, state, reason
            if state is not before:
                server.since = monotonic()
            self.changed.notify_all()
        if state is State.READY:
            server.cut.clear()
        if state is State.LOST and before is not State.LOST:
            server.epoch += 1
            server.cut.set()
            self.on_lost(server)

    async def set_open(self, is_open: bool) -> None:
        """Opens or closes the pool for new completions."""
        async with self.changed:
            self.open = is_open
            self.changed.notify_all()

    @property
    def hopeless(self) -> bool:
        """Whether no server will be ready again."""
        return all(server.state is State.GIVEN_UP for server in self.servers)

    def describe(self) -> str:
        """Each server with its state, for a message."""
        return "; ".join(
            s.reason if s.reason and s.state is State.GIVEN_UP else f"{s} {s.state.value}"
            for s in self.servers
        )

    def _free(self) -> list[Server]:
        if not self.open:
            return []
        return [s for s in self.servers if s.state is State.READY and s.in_flight < self.most]
