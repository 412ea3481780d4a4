"""Adapters, servers that sleep, and ranks other than the first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Tiny
from tests.rollout.engines.vllm.conftest import NewEngine, NewFake
from tests.rollout.engines.vllm.test_engine import SAMPLING, question
from vlrft.policy.policy import Policy
from vlrft.policy.policy_weights import Needs
from vlrft.rollout.engines.vllm.follower import Follower
from vlrft.rollout.engines.vllm.pool import Pool
from vlrft.rollout.engines.vllm.server import Server, State
from vlrft.rollout.engines.vllm.transfer import Update
from vlrft.schema.errors import ConfigError, ServerError


@pytest.fixture
def adapted(lora_policy: Policy) -> Iterator[Policy]:
    """The shared policy with adapters, whose vision model is not trained here."""
    names = lora_policy.trained_names
    vision = lora_policy.chat.vision
    assert vision is not None
    lora_policy.trained_names = tuple(n for n in names if not vision.is_vision(n))
    yield lora_policy
    lora_policy.trained_names = names


def test_adapters_go_over_alone_after_their_base(
    adapted: Policy, new_fake: NewFake, new_engine: NewEngine
) -> None:
    server = new_fake()
    engine = new_engine(server, policy=adapted, lora="adapter")
    (first,) = server.adapters
    engine.load_weights(adapted.weights(), 1)
    (second,) = server.adapters
    assert (first[-2:], second[-2:]) == ("-0", "-1")
    assert server.paths().count("/update_weights") == 1
    assert server.version == second
    engine.generate([question(adapted)], SAMPLING)
    models = [body["model"] for path, body in server.calls if path.endswith("generate")]
    assert models == [second] * 3
    loaded = [body["lora_path"] for path, body in server.calls if path == "/v1/load_lora_adapter"]
    assert [Path(path).exists() for path in loaded] == [False, True]


def test_adapters_of_a_trained_vision_model_are_refused(
    lora_policy: Policy, adapted: Policy, new_engine: NewEngine, new_fake: NewFake
) -> None:
    adapted.trained_names = ("base_model.model.model.visual.blocks.0.mlp.fc1.lora_A",)
    with pytest.raises(ConfigError, match="vLLM adapts the language model alone"):
        new_engine(new_fake(), policy=adapted, lora="adapter")


def test_servers_sleep_between_rollouts_and_wake_around_an_update(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, server = tiny("qwen2_vl"), new_fake()
    engine = new_engine(server, sleep=True)
    engine.generate([question(policy)], SAMPLING)
    engine.finish()
    assert server.sleeping
    engine.generate([question(policy)], SAMPLING)
    assert not server.sleeping
    engine.finish()
    server.calls.clear()
    engine.load_weights(policy.weights(), 1)
    paths = server.paths()
    assert paths[0] == paths[-1] == "/wake_up"
    assert "/update_weights" in paths
    assert not server.sleeping


def test_another_rank_waits_until_a_server_has_the_current_weights(new_fake: NewFake) -> None:
    fake = new_fake()
    fake.version = "run-2"
    update = Update(run="run", step=2)

    async def follow(seconds: float) -> Server:
        server = Server("server 0", fake.url)
        follower = Follower(lambda: update, seconds)
        pool = Pool([server], 1, lambda lost: follower.lost(lost, pool))
        server.state = State.READY
        await pool.set_state(server, State.LOST, "gone")
        await asyncio.gather(*follower.waits)
        await server.close()
        return server

    assert asyncio.run(follow(30.0)).state is State.READY
    fake.version = "run-1"
    given_up = asyncio.run(follow(0.01))
    assert given_up.state is State.GIVEN_UP
    assert given_up.reason.endswith("did not come back: gone")


def test_weights_are_read_to_the_end_where_the_first_rank_cannot_write_them(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other ranks gather each part together with the first one, and would wait for it."""
    policy, read = tiny("qwen2_vl"), list[str]()
    engine = new_engine(new_fake())

    def gather(needs: Needs) -> Iterator[str]:
        for name in needs:
            read.append(name)
            yield name

    def fill_up(path: Path, shapes: object, tensors: Iterator[object]) -> None:
        next(tensors)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vlrft.rollout.engines.vllm.weights.write_stream", fill_up)
    with pytest.raises(
        ServerError, match=r"^rollout\.engine\.folder: .* \(No space left on device\)"
    ):
        engine.load_weights(policy.weights(gather), 1)
    assert read == [name for name, _ in policy.weights()]
