"""Adapters on the real vLLM: `make test-vllm`. Their server has Qwen2.5-VL, with a head of its own and a vocabulary too large to list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.rollout.engines.vllm.real.servers import MARKS, corpus, start_engine
from tests.rollout.engines.vllm.real.trainer_gaps import assert_equal, perturb, requests
from vlrft.config import BuildConfig, LoraConfig, PolicyConfig
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import Sampling
from vlrft.rollout.engines.vllm.engine import VllmEngine

pytestmark = MARKS
LANGUAGE = r".*language_model\..*_proj"  # adapters of the language model alone


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    build = BuildConfig(family="qwen2_5_vl", init_scale=4.0, vocab_size=2048)
    folder = tmp_path_factory.mktemp("untied")
    load_policy(PolicyConfig(build=build), corpus=corpus(), seed=0).save(folder)
    untie(folder)
    lora = LoraConfig(rank=12, target_modules=LANGUAGE)
    policy = load_policy(PolicyConfig(model=str(folder), lora=lora))
    policy.model.eval()
    return policy


@pytest.fixture(scope="module")
def adapters(adapted: Policy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
    folder = tmp_path_factory.mktemp("adapters")
    with start_engine(adapted, folder, lora="adapter") as engine:
        yield engine


def untie(folder: Path) -> None:
    """Gives a saved model a head of its own."""
    weights = load_file(folder / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"]
    noise = torch.randn(embedding.shape, generator=torch.Generator().manual_seed(7))
    save_file(
        weights | {"lm_head.weight": embedding + 0.05 * noise},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    config = json.loads((folder / "config.json").read_text())
    config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(config))


def test_adapters_are_served_over_a_model_with_a_head_of_its_own(
    adapted: Policy, adapters: VllmEngine
) -> None:
    assert_equal(adapted, adapters)
    for step in (1, 2, 3):
        perturb(adapted, seed=step)
        adapters.load_weights(adapted.weights(), step)
        assert_equal(adapted, adapters)


def test_tokens_of_a_large_vocabulary_are_banned_by_the_plug_in(
    adapted: Policy, adapters: VllmEngine
) -> None:
    """With a ban so wide that without it a banned token would be sampled."""
    banned = adapted.chat.banned_ids | set(range(0, 2048, 2))
    wire = replace(adapters._wire, banned=tuple(sorted(banned)))
    connection = adapters.connection
    assert connection is not None
    connection.sampler = replace(connection.sampler, wire=wire)
    asked = requests(adapted.chat, seeds=range(4))
    tokens = [
        t for g in adapters.generate(asked, Sampling(max_tokens=24)) for p in g for t in p.ids
    ]
    assert len(tokens) > 100
    assert not banned & set(tokens)
