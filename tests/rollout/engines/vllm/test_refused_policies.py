"""Policies that the engine refuses before it starts a server."""

from __future__ import annotations

import pytest

from tests.conftest import Tiny
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import EnginePlace
from vlrft.rollout.engines.vllm.kind import Vllm
from vlrft.schema.errors import ConfigError


def test_sleep_is_refused_on_a_cpu_where_vllm_has_none(tiny: Tiny) -> None:
    with pytest.raises(ConfigError, match=r"rollout\.engine\.sleep: .* on a CPU"):
        Vllm(sleep=True).build_at(tiny("qwen2"), EnginePlace())


def test_adapters_are_refused_without_any_and_for_a_vision_model(
    tiny: Tiny, lora_policy: Policy
) -> None:
    """vLLM ignores adapters of the vision model in silence: 1.4 nats off."""
    adapters = Vllm(lora="adapter")
    with pytest.raises(ConfigError, match=r"rollout\.engine\.lora: adapter, .* no adapters"):
        adapters.build_at(tiny("qwen2"), EnginePlace())
    assert any("visual" in name for name in lora_policy.trained_names)
    with pytest.raises(ConfigError, match=r"rollout\.engine\.lora: .* vision model"):
        adapters.build_at(lora_policy, EnginePlace())
