"""Engines over fake servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import Tiny
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import EnginePlace
from vlrft.rollout.engines.vllm.engine import VllmEngine
from vlrft.rollout.engines.vllm.kind import Vllm
from vlrft.testing.fake_vllm import FakeVllm

NewFake = Callable[..., FakeVllm]
NewEngine = Callable[..., VllmEngine]
UPDATE_PATHS = [
    "/pause",
    "/start_weight_update",
    "/update_weights",
    "/finish_weight_update",
    "/reset_encoder_cache",
    "/reset_prefix_cache",
    "/resume",
]  # of an update of a server's weights, in this order


@pytest.fixture
def new_fake(tiny: Tiny) -> Iterator[NewFake]:
    """Starts fake servers of the tiny Qwen2-VL."""
    vocab = tiny("qwen2_vl").backbone.head.weight.shape[0]
    started: list[FakeVllm] = []

    def start(**settings: Any) -> FakeVllm:
        server = FakeVllm(**{"vocab": vocab, **settings})
        started.append(server)
        return server.__enter__()

    yield start
    for server in started:
        server.set(hang=False, hang_after=None, hang_in_update=False)
        server.__exit__()


@pytest.fixture
def new_engine(tiny: Tiny) -> Iterator[NewEngine]:
    """Builds engines with weights at step 0; `lines` are what they said."""
    built: list[VllmEngine] = []

    def build(*servers: FakeVllm, policy: Policy | None = None, **settings: Any) -> VllmEngine:
        policy = policy or tiny("qwen2_vl")
        lines: list[str] = []
        engine = Vllm(urls=tuple(s.url for s in servers), **settings).build_at(
            policy, EnginePlace(say=lines.append)
        )
        assert isinstance(engine, VllmEngine)
        engine.lines = lines  # type: ignore[attr-defined]
        built.append(engine)
        engine.load_weights(policy.weights(), 0)
        return engine

    yield build
    for engine in built:
        engine.close()
