"""The servers as ranks other than the first see them: the first one starts, updates and revives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from vlrft.rollout.engines.vllm.pool import Pool
from vlrft.rollout.engines.vllm.server import Server, State
from vlrft.rollout.engines.vllm.transfer import Update
from vlrft.schema.errors import ServerError

LOOK_SECONDS = 0.5  # between questions to a server that was lost


class Follower:
    """Waits for lost servers to come back with the current weights. Used by the thread of one loop."""

    def __init__(self, current: Callable[[], Update], seconds: float) -> None:
        """`seconds`: after which a server is given up."""
        self.current, self.seconds = current, seconds
        self.waits: set[asyncio.Task[None]] = set()

    def lost(self, server: Server, pool: Pool) -> None:
        """Begins to wait for the server."""
        task = asyncio.ensure_future(self._wait_back(server, pool))
        self.waits.add(task)
        task.add_done_callback(self.waits.discard)

    async def _wait_back(self, server: Server, pool: Pool) -> None:
        deadline = asyncio.get_running_loop().time() + self.seconds
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                info = await server.get("/weight_info")
            except ServerError:
                continue
            update = self.current()
            step = update.step_of(str(info.get("weight_version")))
            if step is not None and step >= update.step:
                await pool.set_state(server, State.READY)
                return
        await pool.set_state(server, State.GIVEN_UP, f"{server} did not come back: {server.reason}")
