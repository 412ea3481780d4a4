"""Pixels go to a server once, and again when it does not have them: with fake servers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from tests.conftest import Tiny
from tests.rollout.engines.vllm.conftest import NewEngine, NewFake
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import Request, Sampling
from vlrft.rollout.engines.vllm.completion import GENERATE
from vlrft.rollout.engines.vllm.engine import VllmEngine
from vlrft.rollout.engines.vllm.images import ImageSender
from vlrft.rollout.engines.vllm.served_policy import make_wire
from vlrft.rollout.engines.vllm.server import LostServer, Server
from vlrft.schema import IMAGE
from vlrft.testing.fake_images import NAME
from vlrft.testing.fake_vllm import FakeVllm
from vlrft.testing.small_policies import ask, noise_image

SAMPLING = Sampling(max_tokens=4)


def requests(policy: Policy, images: Sequence[int] = (0, 1), seeds: int = 4) -> list[Request]:
    return [
        Request(
            id=str(k),
            prompt=policy.chat.render(ask(IMAGE, "what?"), [noise_image(56, 56, k)]),
            seeds=tuple(range(10 * k, 10 * k + seeds)),
        )
        for k in images
    ]


def sample(engine: VllmEngine, asked: Sequence[Request]) -> list[list[tuple[int, ...]]]:
    return [[piece.ids for piece in group] for group in engine.generate(asked, SAMPLING)]


def sent_images(server: FakeVllm) -> int:
    """How often pixels came, alone or in a request for a completion."""
    with server.changed:
        calls = list(server.calls)
    alone = sum(path == "/vlrft/images" for path, _ in calls)
    features = [body["features"]["kwargs_data"]["image"] for _, body in calls if "features" in body]
    return alone + sum(not text.startswith(NAME) for texts in features for text in texts)


@pytest.fixture
def expected(tiny: Tiny, new_fake: NewFake, new_engine: NewEngine) -> list[list[tuple[int, ...]]]:
    """The answers of a server that gets all pixels with every request."""
    server = new_fake(keeps_images=False)
    result = sample(new_engine(server), requests(tiny("qwen2_vl")))
    assert sent_images(server) == 8
    return result


def test_the_pixels_of_a_group_and_of_later_steps_are_sent_once(
    tiny: Tiny,
    new_fake: NewFake,
    new_engine: NewEngine,
    expected: list[list[tuple[int, ...]]],
) -> None:
    policy, server = tiny("qwen2_vl"), new_fake()
    engine = new_engine(server)
    asked = requests(policy)
    assert sample(engine, asked) == expected
    assert sent_images(server) == 2
    engine.load_weights(policy.weights(), 1)
    server.calls.clear()
    sample(engine, asked)
    assert sent_images(server) == 0


def test_an_image_that_the_server_has_dropped_is_sent_again(
    tiny: Tiny,
    new_fake: NewFake,
    new_engine: NewEngine,
    expected: list[list[tuple[int, ...]]],
) -> None:
    server = new_fake()
    engine, asked = new_engine(server), requests(tiny("qwen2_vl"))
    sample(engine, asked)
    dropped = engine._wire.key(asked[0].prompt.images[0])
    server.calls.clear()
    del server.images.kept[dropped]
    assert sample(engine, asked) == expected
    assert [body["key"] for path, body in server.calls if path == "/vlrft/images"] == [dropped]


def test_images_that_a_server_never_keeps_come_with_each_request(
    tiny: Tiny,
    new_fake: NewFake,
    new_engine: NewEngine,
    expected: list[list[tuple[int, ...]]],
) -> None:
    server = new_fake()
    server.set(keep_no_images=True)
    engine, asked = new_engine(server), requests(tiny("qwen2_vl"))
    assert sample(engine, asked) == expected
    server.calls.clear()
    assert sample(engine, asked) == expected
    assert "/vlrft/images" not in server.paths()
    assert sent_images(server) == 8


def test_a_server_that_is_lost_while_an_image_is_sent_leaves_the_completions_to_another(
    tiny: Tiny,
    new_fake: NewFake,
    new_engine: NewEngine,
    expected: list[list[tuple[int, ...]]],
) -> None:
    servers = [new_fake(), new_fake()]
    servers[0].set(fail={"/vlrft/images": 100})
    engine = new_engine(*servers, retries=2)
    assert sample(engine, requests(tiny("qwen2_vl"))) == expected
    assert sent_images(servers[1]) == 2


def test_a_server_that_did_not_say_whether_it_keeps_images_is_asked_again(
    tiny: Tiny, new_fake: NewFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, fake = tiny("qwen2_vl"), new_fake()
    (asked,) = requests(policy, images=(0,), seeds=1)
    wire = make_wire(policy)
    body = wire.request(asked.prompt, (), 0, SAMPLING, None)

    async def ask_twice() -> dict[str, Any]:
        server, images = Server("server 0", fake.url), ImageSender(seconds=20.0)
        post = partial(images.post, server, GENERATE, 20.0, body, partial(wire.data, asked.prompt))
        answering = server.get

        async def fail(path: str) -> dict[str, Any]:
            monkeypatch.setattr(server, "get", answering)
            raise LostServer(path)

        monkeypatch.setattr(server, "get", fail)
        try:
            with pytest.raises(LostServer, match="/vlrft/images"):
                await post()
            return await post()
        finally:
            await server.close()

    assert asyncio.run(ask_twice())["choices"]
    assert sent_images(fake) == 1
