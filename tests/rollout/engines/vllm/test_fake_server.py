"""The fake server behaves as vLLM 0.32 does where the engine depends on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from vlrft.testing.fake_completions import BANNED
from vlrft.testing.fake_vllm import FakeVllm

PARAMS = {"max_tokens": 6, "seed": 3, "temperature": 1.0, "stop_token_ids": [2]}


@pytest.fixture
def fake() -> Iterator[FakeVllm]:
    with FakeVllm(vocab=50) as server:
        yield server


def generate(server: FakeVllm, **body: Any) -> dict[str, Any]:
    json = {"token_ids": [5, 6, 7], "sampling_params": PARAMS, "return_token_ids": True} | body
    answer = httpx.post(f"{server.url}/inference/v1/generate", json=json, timeout=20)
    answer.raise_for_status()
    result: dict[str, Any] = answer.json()
    return result


def test_a_completion_depends_on_prompt_seed_and_weights(fake: FakeVllm, tmp_path: Path) -> None:
    first = generate(fake)
    assert first["prompt_token_ids"] == [5, 6, 7]
    assert generate(fake)["choices"] == first["choices"]
    assert generate(fake, sampling_params=PARAMS | {"seed": 4})["choices"] != first["choices"]
    (tmp_path / "weights").write_bytes(b"new")
    for path, body in [
        ("start_weight_update", None),
        ("update_weights", {"update_info": {"path": str(tmp_path / "weights")}}),
        ("finish_weight_update", {"weight_version": "1"}),
    ]:
        httpx.post(f"{fake.url}/{path}", json=body).raise_for_status()
    updated = generate(fake)["choices"][0]
    assert updated["token_ids"] != first["choices"][0]["token_ids"]
    assert updated["weight_versions"][0]["version"] == "1"
    assert httpx.get(f"{fake.url}/weight_info").json() == {"weight_version": "1"}


def test_banned_tokens_are_not_sampled(fake: FakeVllm) -> None:
    banned = PARAMS | {"max_tokens": 40, "extra_args": {BANNED: [*range(3, 49)]}}
    assert set(generate(fake, sampling_params=banned)["choices"][0]["token_ids"]) <= {0, 1, 2, 49}


def test_a_pause_aborts_requests_and_returns_their_tokens(fake: FakeVllm) -> None:
    fake.set(hang_after=2)
    answers: list[dict[str, Any]] = []
    long = PARAMS | {"stop_token_ids": []}
    thread = threading.Thread(
        target=lambda: answers.append(generate(fake, sampling_params=long)["choices"][0])
    )
    thread.start()
    assert fake.wait_until(lambda server: server.running == 1)
    httpx.post(f"{fake.url}/pause", params={"mode": "abort"})
    thread.join(20)
    assert answers[0]["finish_reason"] == "abort"
    assert len(answers[0]["token_ids"]) == 2


def test_a_refused_update_closes_the_session_and_a_dead_server_its_port(fake: FakeVllm) -> None:
    fake.set(refuse_updates=1, die_after=0)
    httpx.post(f"{fake.url}/start_weight_update")
    refused = httpx.post(f"{fake.url}/update_weights", json={"update_info": {"path": "x"}})
    assert refused.status_code == 500
    with pytest.raises(httpx.TransportError):
        generate(fake)
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{fake.url}/health")


def test_an_image_without_pixels_must_be_in_the_cache(fake: FakeVllm) -> None:
    features: dict[str, Any] = {"mm_hashes": {"image": ["a"]}, "kwargs_data": {"image": [None]}}
    with pytest.raises(httpx.HTTPStatusError):
        generate(fake, features=features)
    generate(fake, features=features | {"kwargs_data": {"image": ["pixels"]}})
    assert generate(fake, features=features)["choices"]
