"""New weights on a server: pause, load, empty the caches, ask for the version, resume."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from vlrft.rollout.engines.vllm.pool import Pool
from vlrft.rollout.engines.vllm.server import PROBE_SECONDS, LostServer, Refused, Server
from vlrft.rollout.engines.vllm.transfer import Transfer, Update

RESETS = 20  # of the prefix cache, which fails while requests that were aborted still hold blocks
ABORT_SECONDS = 2.0  # for the answers of aborted requests
RESET_SECONDS = 0.1  # between them


async def send_update(
    server: Server, update: Update, transfer: Transfer, pool: Pool, seconds: float
) -> None:
    """Loads the weights into a server; its completions are interrupted and return what they have.

    Raises LostServer where any part of it fails: until a whole update succeeds, the server is in between two states.
    """
    await transfer.prepare(server, seconds)
    await server.post("/pause", seconds, mode="abort")
    await _interrupt(server, pool)
    if update.adapter is None:
        await _send_weights(server, update, transfer, update.version, seconds)
    else:
        if server.base != update.base:
            await _send_weights(server, update, transfer, update.base, seconds)
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


async def _send_weights(
    server: Server, update: Update, transfer: Transfer, version: str, seconds: float
) -> None:
    await server.post("/start_weight_update", seconds)
    await transfer.load(server, update, seconds)
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
