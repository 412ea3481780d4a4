"""Weights that are broadcast to fake servers: in every group the trainer and one server."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.conftest import Tiny
from tests.rollout.engines.vllm.conftest import UPDATE_PATHS, NewEngine, NewFake
from tests.rollout.engines.vllm.test_engine import SAMPLING, question
from vlrft.config import RolloutConfig
from vlrft.policy.merging import stored_parameters
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.vllm import server_group
from vlrft.rollout.engines.vllm.kind import Vllm
from vlrft.rollout.engines.vllm.server import LostServer, Server, State
from vlrft.rollout.engines.vllm.server_group import meet, own_address, together
from vlrft.schema.errors import ConfigError, ServerError

URL = "http://far.example:8000"


def digest(policy: Policy) -> str:
    """A fake server's digest of the policy's weights."""
    _, names = stored_parameters(policy.model)
    whole = hashlib.sha256()
    for name, tensor in policy.weights():
        whole.update(names[name].encode())
        whole.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()[:16]


def test_every_server_gets_the_weights_bit_for_bit_and_no_default_group_is_made(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    servers = [new_fake(), new_fake()]
    engine = new_engine(*servers, transfer="broadcast")
    assert {server.weights for server in servers} == {digest(tiny("qwen2_vl"))}
    assert not dist.is_initialized()
    first = {server.version for server in servers}
    engine.load_weights(tiny("qwen2_vl").weights(), 1)
    second = {server.version for server in servers}
    assert [{version[-2:] for version in versions} for versions in (first, second)] == [
        {"-0"},
        {"-1"},
    ]
    met = [body["init_info"] for path, body in servers[0].calls if path.startswith("/init")]
    assert [bool(meeting) for meeting in met] == [False, True]  # once for the run
    assert (met[1]["join_seconds"], met[1]["seconds"]) == (120.0, 600.0)
    assert servers[0].paths()[-len(UPDATE_PATHS) :] == UPDATE_PATHS


def test_adapters_are_merged_into_a_broadcast(
    lora_policy: Policy, new_fake: NewFake, new_engine: NewEngine
) -> None:
    server = new_fake()
    new_engine(server, policy=lora_policy, transfer="broadcast")
    assert server.weights == digest(lora_policy)


def test_a_server_that_leaves_in_a_broadcast_gets_it_again_as_a_whole(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, leaving, other = tiny("qwen2_vl"), new_fake(), new_fake()
    engine = new_engine(leaving, other, transfer="broadcast")
    leaving.set(leave_broadcast=3)
    engine.load_weights(policy.weights(), 1)
    assert leaving.weights == other.weights == digest(policy)
    assert leaving.version == other.version
    assert other.paths().count("/update_weights") == 2  # the other one's group was its own
    assert all(server.state is State.READY for server in engine.servers)


def test_a_server_that_dies_in_a_broadcast_ends_a_run_that_has_no_other_with_one_line(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    server = new_fake()
    engine = new_engine(server, transfer="broadcast", retries=0, start_seconds=0.2)
    server.set(leave_broadcast=1, fail={"/init_weight_transfer_engine": 9})
    with pytest.raises(ServerError, match=r"server 0 at .* is given up: .*/init_weight_transfer"):
        engine.load_weights(tiny("qwen2_vl").weights(), 1)


def test_a_broadcast_whose_server_fails_is_not_waited_for() -> None:
    """As where the server does not answer in time: its workers take no tensor, and the sender waits."""
    released, server = threading.Event(), Server("server 0", URL)

    async def refuse() -> None:
        raise LostServer("no answer from /update_weights within 600 s")

    async def send() -> None:
        await together(server, lambda: released.wait(20), refuse())

    try:
        with pytest.raises(LostServer, match="no answer from /update_weights"):
            asyncio.run(send())
        assert not released.is_set()
    finally:
        released.set()


def test_a_broadcast_that_fails_before_its_server_does_loses_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vlrft.rollout.engines.vllm.server_group.REASON_SECONDS", 0.0)
    server = Server("server 0", URL)

    def fail() -> None:
        raise RuntimeError("Connection closed by peer")

    async def send() -> None:
        await together(server, fail, asyncio.Event().wait())

    with pytest.raises(
        LostServer, match=r"server 0 at .*: the broadcast .* \(.*Connection closed by"
    ):
        asyncio.run(send())


def test_a_server_that_comes_back_is_sent_the_kept_weights(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, server = tiny("qwen2_vl"), new_fake()
    engine = new_engine(server, transfer="broadcast")
    expected, server.weights = server.weights, "those of its start"
    server.version = "default"  # as after a start without the run's knowledge
    server.worker = None
    engine.generate([question(policy)], SAMPLING)
    assert server.weights == expected
    assert server.version[-2:] == "-0"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"folder": "/shared"}, r"folder: a broadcast writes no file"),
        ({"lora": "adapter"}, r"lora: adapters go as files"),
        ({"sleep": True}, r"sleep: servers on the trainer's own GPU"),
    ],
)
def test_settings_that_a_broadcast_does_not_have_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=rf"^rollout\.engine\.{message}.* use transfer=file"):
        Vllm(urls=(URL,), transfer="broadcast", **settings).check(RolloutConfig())


def test_a_broadcast_needs_no_folder_that_servers_elsewhere_see() -> None:
    with pytest.raises(
        ConfigError, match=r"^rollout\.engine\.folder: .* or use transfer=broadcast"
    ):
        Vllm(urls=(URL,)).check(RolloutConfig())
    Vllm(urls=(URL,), transfer="broadcast").check(RolloutConfig())


def test_the_trainer_is_met_at_the_address_that_leads_to_the_server() -> None:
    assert own_address("http://127.0.0.1:8000") == "127.0.0.1"
    assert own_address("http://127.0.0.1") == "127.0.0.1"


def test_a_server_may_have_an_ipv6_address() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    assert own_address("http://[::1]:8000") == "::1"


@pytest.mark.parametrize("answer", [{}, {"world_size": None}, {"world_size": "many"}])
def test_a_server_that_does_not_say_how_many_workers_it_has_is_lost(
    answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LostServer, match=r"^server 0 at .*: /get_world_size answered no JSON with"):
        meet_with(answer, monkeypatch)


@pytest.mark.parametrize("error", [RuntimeError("no port is free"), OSError("no port is free")])
@pytest.mark.parametrize("part", ["own_address", "TCPStore"])
def test_a_store_that_cannot_be_opened_loses_the_server(
    error: Exception, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr(server_group, "own_address", lambda url: "127.0.0.1")
    monkeypatch.setattr(server_group, part, fail)
    with pytest.raises(LostServer, match=r"^server 0 at .*: no store .*Error: no port is free\)$"):
        meet_with({"world_size": 1}, monkeypatch)


def meet_with(answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Meets a server with this answer to the question how many workers it has."""
    server = Server("server 0", URL)

    async def get(path: str) -> dict[str, Any]:
        return answer

    monkeypatch.setattr(server, "get", get)
    asyncio.run(meet(server, torch.device("cpu"), 5.0))
