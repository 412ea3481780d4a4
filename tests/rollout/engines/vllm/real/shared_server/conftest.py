"""The server of this folder's tests: Qwen2-VL with a tied head. It is started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rollout.engines.vllm.real.servers import corpus, start_engine
from vlrft.config import BuildConfig, PolicyConfig
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.vllm.engine import VllmEngine

IMAGE_BYTES = 2**21  # in base64


@pytest.fixture(scope="package")
def qwen2_vl() -> Policy:
    config = PolicyConfig(build=BuildConfig(family="qwen2_vl", init_scale=4.0))
    policy = load_policy(config, corpus=corpus(), seed=0)
    policy.model.eval()
    return policy


@pytest.fixture(scope="package")
def tied(qwen2_vl: Policy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
    """Its server keeps few images."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLRFT_IMAGE_BYTES", str(IMAGE_BYTES))
        with start_engine(qwen2_vl, tmp_path_factory.mktemp("tied")) as engine:
            yield engine
