"""The command and the environment of a server that vlrft starts. Most of the flags are needed for the right answers."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import Tiny
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.vllm.command import ServerCommand, hold_port, server_command
from vlrft.rollout.engines.vllm.kind import Vllm


def command(policy: Policy, context: int = 512, **settings: Any) -> ServerCommand:
    log, model = Path("log"), Path("model")
    return server_command(Vllm(**settings), policy, model, 0, 8000, log, context)


def test_a_server_leaves_pixels_and_log_probs_as_vlrft_means_them(tiny: Tiny) -> None:
    """Without the first flag the tower normalises pixels twice; without the second, log-probs ignore the temperature."""
    flags = command(tiny("qwen2_vl")).arguments
    assert "--no-mm-device-do-normalize" in flags
    assert "--middleware=vlrft_vllm.image_store.ImageStore" in flags
    assert "--logprobs-mode=processed_logprobs" in flags
    assert "--generation-config=vllm" in flags  # sampling settings come from requests alone
    assert '--weight-transfer-config={"backend":"vlrft"}' in flags
    assert "--no-mm-device-do-normalize" not in command(tiny("qwen2")).arguments


@pytest.mark.skipif(torch.cuda.is_available(), reason="flags of a server on a CPU")
@pytest.mark.parametrize(("context", "tokens"), [(512, 16384), (20000, 20000)])
def test_on_a_cpu_prompts_are_prefilled_whole_in_one_step(
    tiny: Tiny, context: int, tokens: int
) -> None:
    flags = command(tiny("qwen2_vl"), context).arguments
    assert "--no-enable-chunked-prefill" in flags
    assert f"--max-model-len={context}" in flags
    assert f"--max-num-batched-tokens={tokens}" in flags


@pytest.mark.parametrize(("rank", "room"), [(2, 8), (12, 16), (64, 64), (700, 700)])
def test_room_for_adapters_is_a_size_that_vllm_has(
    lora_policy: Policy, monkeypatch: pytest.MonkeyPatch, rank: int, room: int
) -> None:
    (config,) = lora_policy.model.peft_config.values()
    monkeypatch.setattr(config, "r", rank)
    assert f"--max-lora-rank={room}" in command(lora_policy, lora="adapter").arguments


def test_a_server_does_not_see_the_trainers_modules_ranks_and_threads(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "RANK", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "77")
    monkeypatch.setattr(os, "cpu_count", lambda: 9)
    environment = command(tiny("qwen2"), servers=2).environment
    assert not {"PYTHONPATH", "RANK", "MASTER_PORT"} & environment.keys()
    assert environment["VLLM_SERVER_DEV_MODE"] == "1"
    if not torch.cuda.is_available():
        assert environment["OMP_NUM_THREADS"] == "3"
        assert environment["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"


def test_a_held_port_is_given_to_nobody_but_the_server_that_is_told_it() -> None:
    with hold_port() as held:
        address = held.getsockname()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
        for _ in range(2):  # a server that is started again, too
            with socket.create_server(address) as server:  # sets SO_REUSEADDR, as vLLM does
                socket.create_connection(address).close()
                server.accept()[0].close()
