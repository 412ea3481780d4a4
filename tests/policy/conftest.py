"""A model and a LoRA checkpoint of it, written once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from vlrft.config import LoraConfig, PolicyConfig
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.testing.small_policies import CORPUS, tiny_config


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole model in a folder."""
    folder = tmp_path_factory.mktemp("base") / "model"
    load_policy(tiny_config("qwen2_vl"), corpus=CORPUS).save(folder)
    return folder


@pytest.fixture(scope="session")
def trained(base: Path) -> Policy:
    """The model with adapters that changed it little, in bfloat16."""
    config = PolicyConfig(model=str(base), lora=LoraConfig(rank=2), dtype="bfloat16")
    policy = load_policy(config)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=1e-4, generator=torch.Generator().manual_seed(1))
    return policy


@pytest.fixture(scope="session")
def checkpoint(trained: Policy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "step_1"
    trained.save(folder)
    return folder
