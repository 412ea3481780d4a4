"""Requests that name their images: the pixels of an image go to a server once, for as long as the server keeps them.

The server alone says what it has, so one that was started again, dropped an image, or got it from another rank needs no bookkeeping
here: every request names its images, and those that the server misses are sent before it is asked again. A server without the
layer `vlrft_vllm.image_store` gets the pixels with every request.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from vlrft.rollout.engines.vllm.loop import see_error
from vlrft.rollout.engines.vllm.server import Refused, Server

STORE = "/vlrft/images"
NAME = "vlrft-image:"  # and the image's key, in place of the image in base64
MISSING = 409  # the server's status for images that it does not keep
SENDS = 2  # of missing images; after that they come with the request itself

Body = dict[str, Any]


@dataclass
class _Store:
    """The images that a server keeps, as far as they have to be known here."""

    epoch: int
    there: asyncio.Task[bool]  # whether it keeps any
    sends: dict[str, asyncio.Task[Body]] = field(default_factory=dict[str, "asyncio.Task[Body]"])
    sent: Counter[str] = field(default_factory=Counter[str])  # how often each image was
    too_large: set[str] = field(default_factory=set[str])

    def is_of(self, epoch: int) -> bool:
        """Whether it is of the server as it was started last, and the server has said or will say whether it keeps images."""
        failed = self.there.done() and (self.there.cancelled() or self.there.exception())
        return self.epoch == epoch and not failed

    def finish(self, key: str) -> None:
        del self.sends[key]
        self.sent[key] += 1


@dataclass(frozen=True, kw_only=True)
class ImageSender:
    """Asks servers for what needs images. Used by the thread of one loop."""

    seconds: float  # of the transfer of an image
    stores: dict[Server, _Store] = field(default_factory=dict[Server, _Store])

    async def post(
        self, server: Server, path: str, seconds: float, body: Body, data: Callable[[str], str]
    ) -> Body:
        """The answer to a body whose features name images by their keys; `data` gives one in base64. Raises as `Server.post`."""
        keys = named_images(body)
        if not keys:
            return await server.post(path, seconds, body)
        store = await self._store(server)
        for _ in range(SENDS if store.there.result() else 0):
            if not store.too_large.isdisjoint(keys):
                break
            before = {key: store.sent[key] for key in keys}
            try:
                return await server.post(path, seconds, body)
            except Refused as e:
                if e.status != MISSING:
                    raise
                missing = {key for key in keys if key in e.answer.get("missing", ())}
            missing = {key for key in missing if store.sent[key] == before[key]}  # else meanwhile
            await asyncio.gather(*(self._send(server, store, key, data) for key in missing))
        return await server.post(path, seconds, with_images(body, data))

    async def _store(self, server: Server) -> _Store:
        store = self.stores.get(server)
        if store is None or not store.is_of(
            server.epoch
        ):  # it may have been started in another way
            store = _Store(server.epoch, _begin(_has_store(server)))
            self.stores[server] = store
        await asyncio.shield(store.there)
        return store

    async def _send(
        self, server: Server, store: _Store, key: str, data: Callable[[str], str]
    ) -> None:
        """Sends an image, or waits until another request has sent it."""
        if key not in store.sends:
            image = {"key": key, "data": data(key)}
            store.sends[key] = _begin(server.post(STORE, self.seconds, image))
            store.sends[key].add_done_callback(lambda _: store.finish(key))
        answer = await asyncio.shield(store.sends[key])
        if not answer.get("kept"):
            store.too_large.add(key)


def named_images(body: Body) -> list[str]:
    """The keys of the images that a body names."""
    named: dict[str, Sequence[str]] = (body.get("features") or {}).get("kwargs_data", {})
    return [name.removeprefix(NAME) for names in named.values() for name in names]


def with_images(body: Body, data: Callable[[str], str]) -> Body:
    """The body with the images that it names."""
    features = body["features"]
    named: dict[str, Sequence[str]] = features["kwargs_data"]
    whole = {kind: [data(n.removeprefix(NAME)) for n in names] for kind, names in named.items()}
    return body | {"features": features | {"kwargs_data": whole}}


async def _has_store(server: Server) -> bool:
    try:
        await server.get(STORE)
    except Refused:
        return False
    return True


def _begin(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A task that goes on when one of those who wait for it is cancelled."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(see_error)
    return task
