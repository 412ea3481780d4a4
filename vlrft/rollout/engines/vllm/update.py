"""New weights on a server: pause, load, empty the caches, ask for the version, resume."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vlrft.rollout.engines.vllm.pool import Pool
from vlrft.rollout.engines.vllm.server import PROBE_SECONDS, LostServer, Refused, Server

RESETS = 20  # of the prefix cache, which fails while requests that were aborted still hold blocks
ABORT_SECONDS = 2.0  # for the answers of aborted requests
RESET_SECONDS = 0.1  # between them


@dataclass(frozen=True, kw_only=True)
class Update:
    """The weights after a step of a run."""

    run: str  # tells this run from another one at the same servers
    step: int
    weights: Path | None = None  # whole, or the base of an adapter
    base: str = ""  # the version of `weights` where an adapter comes on top
    adapter: Path | None = None

    @property
    def version(self) -> str:
        """The label of the weights on a server."""
        return f"{self.run}-{self.step}"

    @property
    def model(self) -> str | None:
        """The model that requests name: the adapter, or the only one."""
        return None if self.adapter is None else self.version

    def step_of(self, version: str) -> int | None:
        """The step of a label; None for one of another run, or of a server that has never been updated."""
        run, _, step = version.rpartition("-")
        return int(step) if run == self.run and step.isdecimal() else None


async def send_update(server: Server, update: Update, pool: Pool, seconds: float) -> None:
    """Loads the weights into a server; its completions are interrupted and return what they have.

    Raises LostServer where any part of it fails: until a whole update succeeds, the server is in between two states.
    """
    await server.post("/pause", seconds, mode="abort")
    await _interrupt(server, pool)
    if update.adapter is None:
        await _send_weights(server, update.weights, update.version, seconds)
    else:
        if server.base != update.base:
            await _send_weights(server, update.weights, update.base, seconds)
            server.base = update.base
        await _send_adapter(server, update, seconds)
    await server.post(
        "/reset_encoder_cache", seconds
    )  # before the prefix cache: it is filled from this one
    await _reset_prefix_cache(server, seconds)
    loaded = (await server.get("/weight_info")).get("weight_version")
    if loaded != update.version:
        raise LostServer(
            f"{server} says that it has the weights {loaded!r} after an update to {update.version!r}"
        )
    await server.post("/resume", seconds)


async def _interrupt(server: Server, pool: Pool) -> None:
    """Waits for the answers of requests that the pause aborted. One that reached the server after the pause would wait for its
    end: it is given up, and asked again."""
    try:
        await asyncio.wait_for(pool.wait_idle(server), ABORT_SECONDS)
    except (TimeoutError, asyncio.TimeoutError):
        server.cut.set()
        await pool.wait_idle(server)
        server.cut.clear()


async def _send_weights(server: Server, path: Path | None, version: str, seconds: float) -> None:
    await server.post("/start_weight_update", seconds)
    await server.post("/update_weights", seconds, {"update_info": {"path": str(path)}})
    await server.post("/finish_weight_update", seconds, {"weight_version": version})


async def _send_adapter(server: Server, update: Update, seconds: float) -> None:
    adapter = {"lora_name": update.version, "lora_path": str(update.adapter)}
    if server.adapter is None:
        with suppress(Refused):  # as a rule it is not there: one at an address may have it still
            await server.post("/v1/unload_lora_adapter", seconds, {"lora_name": update.version})
    if server.adapter != update.version:
        await server.post("/v1/load_lora_adapter", seconds, adapter)
        if server.adapter is not None:
            await server.post("/v1/unload_lora_adapter", seconds, {"lora_name": server.adapter})
        server.adapter = update.version
    await server.post("/update_weight_version", PROBE_SECONDS, {"new_version": update.version})


async def _reset_prefix_cache(server: Server, seconds: float) -> None:
    for _ in range(RESETS):
        if (await server.post("/reset_prefix_cache", seconds)).get("success"):
            return
        await asyncio.sleep(RESET_SECONDS)
    raise LostServer(f"{server} does not empty its prefix cache, whose keys are of older weights")
