"""Images that a server keeps, so that requests only name them: G completions of a prompt, and later steps, send pixels once.

An ASGI layer around vLLM's routes, which vLLM loads by `--middleware vlrft_vllm.image_store.ImageStore`. Imports no vLLM.

    GET  /vlrft/images                       -> {"bytes": …, "limit_bytes": …}
    POST /vlrft/images {"key": …, "data": …} -> {"kept": true}; false for an image larger than all room

In a request to /inference/v1/generate, the text `vlrft-image:KEY` may stand in place of the image in base64. vLLM gets the request
with the image itself, so its own caches have no part in it. Where a named image is not kept, vLLM gets no request, and the answer is
409 {"missing": [keys]}: the client sends those images, and asks again.
"""

from __future__ import annotations

import json
import os
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

PATH = "/vlrft/images"
GENERATE = "/inference/v1/generate"
NAMED = re.compile(rb'"vlrft-image:([0-9A-Za-z._-]+)"')
BASE64 = re.compile(r"[0-9A-Za-z+/]*={0,2}")
LIMIT = "VLRFT_IMAGE_BYTES"  # variable of the environment
LIMIT_BYTES = 2**30

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class KeptImages:
    """Images in base64 by key, at most `limit` bytes together; the least recently named ones are dropped first."""

    def __init__(self, limit: int) -> None:
        self.limit, self.bytes = limit, 0
        self._images: OrderedDict[bytes, bytes] = OrderedDict()

    def put(self, key: bytes, data: bytes) -> bool:
        """Whether the image is kept now."""
        if len(data) > self.limit:
            return False
        self.bytes += len(data) - len(self._images.pop(key, b""))
        self._images[key] = data
        while self.bytes > self.limit:
            self.bytes -= len(self._images.popitem(last=False)[1])
        return True

    def get(self, key: bytes) -> bytes | None:
        if key in self._images:
            self._images.move_to_end(key)
        return self._images.get(key)

    def insert(self, body: bytes) -> bytes | list[str]:
        """The body with the images that it names, or the keys of those that are not kept."""
        found = {key: self.get(key) for key in dict.fromkeys(NAMED.findall(body))}
        missing = [key.decode() for key, data in found.items() if data is None]
        return missing or NAMED.sub(lambda name: b'"%s"' % found[name[1]], body)


class ImageStore:
    """The layer. Its images are those of one process: with `--api-server-count` each process is sent them."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.images = KeptImages(int(os.environ.get(LIMIT, LIMIT_BYTES)))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        path = scope.get("path") if scope["type"] == "http" else None
        if path == PATH:
            await _answer(send, *await self._serve(scope["method"], receive))
        elif path == GENERATE:
            await self._generate(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _serve(self, method: str, receive: Receive) -> tuple[int, dict[str, Any]]:
        if method == "GET":
            return 200, {"bytes": self.images.bytes, "limit_bytes": self.images.limit}
        if method != "POST":
            return 405, {"error": f"{PATH}: GET or POST"}
        image = _parse_image(await _read(receive))
        if image is None:
            return 400, {"error": f'{PATH}: {{"key": …, "data": base64}} is needed'}
        return 200, {"kept": self.images.put(*image)}

    async def _generate(self, scope: Message, receive: Receive, send: Send) -> None:
        body = self.images.insert(await _read(receive))
        if isinstance(body, list):
            await _answer(send, 409, {"missing": body})
            return
        length = (b"content-length", b"%d" % len(body))
        others = [header for header in scope["headers"] if header[0].lower() != length[0]]
        begin: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            return begin.pop() if begin else await receive()  # that the client has gone, in the end

        await self.app({**scope, "headers": [*others, length]}, receive_again, send)


def _parse_image(body: bytes) -> tuple[bytes, bytes] | None:
    """Key and data of an image that is sent; None for any other body."""
    try:
        image = json.loads(body)
        key, data = image["key"], image["data"]
        named = NAMED.fullmatch(b'"vlrft-image:%s"' % key.encode())
        return (named[1], data.encode()) if named and BASE64.fullmatch(data) else None
    except (ValueError, KeyError, TypeError, AttributeError):  # of another type than a text, too
        return None


async def _read(receive: Receive) -> bytes:
    """The body. Raises ConnectionError where the client goes before its end."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError("the client has gone")
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _answer(send: Send, status: int, content: dict[str, Any]) -> None:
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
