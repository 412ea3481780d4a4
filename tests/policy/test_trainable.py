"""Adapters of weights that a model uses twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vlrft.config import LoraConfig, PolicyConfig
from vlrft.policy.load import load_policy
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import CORPUS, tiny_config


@pytest.mark.filterwarnings("ignore:Model .*tie_word_embeddings")
@pytest.mark.parametrize("name", ["lm_head", "embed_tokens"])
def test_adapters_of_a_tied_weight_are_refused(name: str) -> None:
    """Merged into the one weight they would change the embedding and the head, of which they adapt one."""
    lora = LoraConfig(rank=2, target_modules=("q_proj", name))
    message = rf"^policy\.lora\.target_modules: the weight of \S*{name} is also that of \S+, .*; leave it out"
    with pytest.raises(ConfigError, match=message):
        load_policy(tiny_config("qwen2_vl", lora=lora), corpus=CORPUS)


@pytest.mark.filterwarnings("ignore:Model .*tie_word_embeddings")
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
def test_an_adapter_of_a_tied_weight_is_refused(tmp_path: Path) -> None:
    from peft import LoraConfig as PeftConfig
    from peft import get_peft_model

    policy = load_policy(tiny_config("qwen2"), corpus=CORPUS)
    policy.save(tmp_path / "base")
    settings = PeftConfig(r=2, target_modules=["lm_head"])
    get_peft_model(policy.model, settings).save_pretrained(
        tmp_path / "adapter", save_embedding_layers=False
    )
    written = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert written["target_modules"] == ["lm_head"]
    config = PolicyConfig(model=str(tmp_path / "base"), adapter=str(tmp_path / "adapter"))
    with pytest.raises(ConfigError, match=r"^policy\.adapter=.*: the weight of lm_head is also"):
        load_policy(config)
