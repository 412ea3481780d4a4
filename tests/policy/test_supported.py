"""Models that transformers loads and vlrft refuses, before any of them is trained or sampled from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import Tiny
from vlrft.config import PolicyConfig
from vlrft.policy.load import load_chat, load_policy
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import ask


def save_text_model(tiny: Tiny, folder: Path, name: str, **settings: Any) -> None:
    """A random model of one of transformers' text models, with the tokenizer of a tiny policy."""
    import transformers

    chat = tiny("qwen2").chat
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    ends = {"bos_token_id": chat.pad_id, "eos_token_id": chat.end_id, "pad_token_id": chat.pad_id}
    config = getattr(transformers, f"{name}Config")(
        vocab_size=len(chat.tokenizer), **sizes, **heads, **ends, **settings
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    chat.save(folder)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Granite", {"logits_scaling": 8.0}),
        ("Cohere", {"logit_scale": 0.0625}),
        ("NanoChat", {}),  # a soft cap, which small logits do not show
    ],
)
def test_logits_that_are_not_those_of_the_head_are_refused(
    tiny: Tiny, tmp_path: Path, name: str, settings: dict[str, Any]
) -> None:
    save_text_model(tiny, tmp_path, name, **settings)
    with pytest.raises(
        ConfigError, match=r"is not supported: its logits are the output of its head scaled or cap"
    ):
        load_policy(PolicyConfig(model=str(tmp_path)))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Granite", {"logits_scaling": 1.0}),
        ("Phi", {}),  # its head has a bias
        ("GPTNeoX", {}),
        ("Glm4", {"head_dim": 16}),
    ],
)
def test_other_text_models_are_loaded(
    tiny: Tiny, tmp_path: Path, name: str, settings: dict[str, Any]
) -> None:
    save_text_model(tiny, tmp_path, name, **settings)
    policy = load_policy(PolicyConfig(model=str(tmp_path), dtype="bfloat16"))
    ids = torch.tensor([policy.chat.render(ask("?")).ids])
    with torch.no_grad():
        assert policy.model(input_ids=ids).logits.shape[:2] == ids.shape  # its decoder runs again


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Qwen3Moe", {"num_experts": 4, "moe_intermediate_size": 8, "head_dim": 16}),
        ("Mixtral", {"num_local_experts": 4}),
        ("Glm4Moe", {"n_routed_experts": 4, "moe_intermediate_size": 8, "head_dim": 16}),
    ],
)
def test_text_models_with_experts_are_refused(
    tiny: Tiny, tmp_path: Path, name: str, settings: dict[str, Any]
) -> None:
    save_text_model(tiny, tmp_path, name, **settings)
    with pytest.raises(ConfigError, match="its decoder routes tokens to experts"):
        load_policy(PolicyConfig(model=str(tmp_path)))


def test_a_model_that_is_stored_quantised_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    """Such as unsloth's; saved, its weights would be plain, and its config would say that they are not."""
    tiny("qwen2").save(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    settings["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    config = PolicyConfig(model=str(tmp_path))
    for load in (load_policy, load_chat):
        with pytest.raises(ConfigError, match=r"are quantised \(bitsandbytes\); .*full precision"):
            load(config)


def test_an_attention_whose_values_have_another_width_is_refused(
    tiny: Tiny, tmp_path: Path
) -> None:
    """As multi-head latent attention, of MiniCPM3 and DeepSeek."""
    sizes = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8}
    save_text_model(tiny, tmp_path, "Youtu", **sizes, v_head_dim=8, tie_word_embeddings=True)
    with pytest.raises(ConfigError, match=r"queries of width 16 and values of width 8"):
        load_policy(PolicyConfig(model=str(tmp_path)))
