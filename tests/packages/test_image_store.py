"""The layer inside vLLM that keeps images, around an application that answers with the body that reached it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from vlrft_vllm.image_store import GENERATE, PATH, ImageStore, Message, Receive, Send


async def echo(scope: Message, receive: Receive, send: Send) -> None:
    """Answers with what it gets, and with the length that it is told."""
    body = (await receive())["body"]
    told = dict(scope["headers"]).get(b"content-length", b"")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    gone = (await receive())["type"] == "http.disconnect"
    answer = {"body": body.decode(), "told": int(told), "gone": gone}
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


def call(layer: ImageStore, path: str, body: Any, method: str = "POST") -> tuple[int, Any]:
    """Status and answer of a request that comes in two parts, from a client that goes afterwards."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    coming: list[Message] = [
        {"type": "http.request", "body": raw[:5], "more_body": True},
        {"type": "http.request", "body": raw[5:], "more_body": False},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return coming.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(b"Content-Length", b"%d" % len(raw)), (b"x", b"y")],
    }
    asyncio.run(layer(scope, receive, send))
    return sent[0]["status"], json.loads(b"".join(m.get("body", b"") for m in sent[1:]))


def image(key: str, data: str) -> dict[str, str]:
    return {"key": key, "data": data}


def request(*names: str) -> dict[str, Any]:
    return {"token_ids": [1], "features": {"kwargs_data": {"image": list(names)}}}


def test_a_named_image_is_inserted_and_the_rest_of_the_request_is_as_it_came() -> None:
    layer = ImageStore(echo)
    assert call(layer, PATH, image("a1.float32", "AAAA")) == (200, {"kept": True})
    assert call(layer, PATH, image("b", "BB==")) == (200, {"kept": True})
    status, answer = call(layer, GENERATE, request("vlrft-image:a1.float32", "CC", "vlrft-image:b"))
    assert status == 200
    assert json.loads(answer["body"]) == request("AAAA", "CC", "BB==")
    assert answer["told"] == len(answer["body"])
    assert answer["gone"]
    assert call(layer, PATH, b"", "GET")[1]["bytes"] == 8


def test_missing_images_are_named_and_the_request_does_not_go_on() -> None:
    layer = ImageStore(echo)
    call(layer, PATH, image("b", "BBBB"))
    names = request("vlrft-image:a", "vlrft-image:b", "vlrft-image:c", "vlrft-image:a")
    assert call(layer, GENERATE, names) == (409, {"missing": ["a", "c"]})


def test_the_images_named_longest_ago_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLRFT_IMAGE_BYTES", "8")
    layer = ImageStore(echo)
    for key in "ab":
        call(layer, PATH, image(key, key * 4))
    assert call(layer, GENERATE, request("vlrft-image:a"))[0] == 200
    call(layer, PATH, image("c", "cccc"))
    assert call(layer, GENERATE, request("vlrft-image:a", "vlrft-image:c"))[0] == 200
    assert call(layer, GENERATE, request("vlrft-image:b")) == (409, {"missing": ["b"]})
    assert call(layer, PATH, image("d", "dddddddd" + "dddd")) == (200, {"kept": False})
    assert layer.images.bytes == 8


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        {},
        [],
        {"key": 5, "data": "AAAA"},
        {"key": "a", "data": 5},
        b'{"key": "\\ud800", "data": "AAAA"}',
        image("a b", "AAAA"),
        image('a"', "AAAA"),
        image("a", 'AA"'),
        image("a", "A\n"),
    ],
)
def test_what_is_no_image_is_refused(body: Any) -> None:
    layer = ImageStore(echo)
    assert call(layer, PATH, body)[0] == 400
    assert layer.images.bytes == 0


def test_other_routes_are_left_alone() -> None:
    layer = ImageStore(echo)
    scope = {"type": "lifespan"}
    seen: list[Message] = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        seen.append(scope)

    layer.app = app
    asyncio.run(layer(scope, None, None))  # type: ignore[arg-type]
    asyncio.run(layer({"type": "http", "path": "/health"}, None, None))  # type: ignore[arg-type]
    assert [s.get("path") for s in seen] == [None, "/health"]
    assert seen[0] is scope
