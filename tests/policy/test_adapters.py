"""LoRA adapters that exist: of checkpoints, and as peft writes them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from tests.policy.test_load import logprobs, with_random_adapters
from vlrft.config import LoraConfig, PolicyConfig
from vlrft.policy.adapter_files import MERGE, read_adapter
from vlrft.policy.checkpoint_adapter import exact_policy, merge_note
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import CORPUS, tiny_config


def test_a_checkpoint_is_evaluated_by_its_exact_adapter(
    lora_base: Path, lora_policy: Policy, lora_checkpoint: Path
) -> None:
    asked = PolicyConfig(model=str(lora_checkpoint), dtype="bfloat16")
    config, line = exact_policy(asked)
    assert str(lora_base) in line
    assert str(lora_checkpoint / "adapter") in line
    exact, merged = load_policy(config), load_policy(asked)
    assert exact.has_lora
    assert not merged.has_lora
    assert torch.equal(logprobs(exact), logprobs(lora_policy))
    assert not torch.equal(logprobs(merged), logprobs(lora_policy))
    kept = json.loads((lora_checkpoint / "adapter" / MERGE).read_text())
    assert kept["dtype"] == "bfloat16"
    assert 0.01 < kept["kept"] < 0.99


def test_a_checkpoint_says_how_much_of_the_update_its_merged_weights_hold(
    lora_checkpoint: Path, lora_base: Path
) -> None:
    line = merge_note(lora_checkpoint)
    assert re.search(r"its merged bfloat16 weights hold \d+\.\d % of the adapters' update", line)
    assert merge_note(lora_base) == ""


def test_merged_float32_weights_hold_the_whole_update(tmp_path: Path) -> None:
    config = tiny_config("qwen2", lora=LoraConfig(rank=2))
    with_random_adapters(load_policy(config, corpus=CORPUS)).save(tmp_path)
    kept = json.loads((tmp_path / "adapter" / MERGE).read_text())["kept"]
    assert kept == pytest.approx(1.0, abs=1e-4)


def test_the_merged_weights_are_used_where_the_base_is_not_here(
    lora_checkpoint: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    (moved / "adapter").mkdir(parents=True)
    for file in lora_checkpoint.rglob("*.*"):
        if file.is_file():
            (moved / file.relative_to(lora_checkpoint)).write_bytes(file.read_bytes())
    settings = json.loads((moved / "adapter" / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = str(tmp_path / "gone")
    (moved / "adapter" / "adapter_config.json").write_text(json.dumps(settings))
    config, line = exact_policy(PolicyConfig(model=str(moved)))
    assert config.model == str(moved)
    assert config.adapter is None
    assert "merged weights" in line
    assert "gone" in line


def test_an_adapter_names_its_base_and_is_trained_further(
    lora_base: Path, lora_checkpoint: Path, lora_policy: Policy
) -> None:
    adapter = lora_checkpoint / "adapter"
    assert read_adapter(str(adapter)).base == str(lora_base)
    policy = load_policy(PolicyConfig(adapter=str(adapter), dtype="bfloat16"))
    assert policy.trained_names == lora_policy.trained_names
    assert torch.equal(logprobs(policy), logprobs(lora_policy))
    without = load_policy(PolicyConfig(model=str(lora_base), dtype="bfloat16"))
    assert torch.equal(logprobs(policy.reference()), logprobs(without))


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
def test_a_folder_that_peft_wrote_is_an_adapter(lora_base: Path, tmp_path: Path) -> None:
    from peft import LoraConfig as PeftConfig
    from peft import get_peft_model
    from transformers import AutoModelForImageTextToText

    plain = AutoModelForImageTextToText.from_pretrained(lora_base)
    settings = PeftConfig(r=3, lora_alpha=5, target_modules=["q_proj"], init_lora_weights=False)
    theirs = get_peft_model(plain, settings)
    theirs.save_pretrained(tmp_path / "theirs")
    theirs.merge_and_unload().save_pretrained(tmp_path / "merged")
    for name in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"):
        (tmp_path / "merged" / name).write_bytes((lora_base / name).read_bytes())
    template = (lora_base / "chat_template.jinja").read_bytes()
    (tmp_path / "merged" / "chat_template.jinja").write_bytes(template)
    config, line = exact_policy(PolicyConfig(model=str(tmp_path / "theirs")))
    assert line == f"model: {lora_base} with the adapter {tmp_path / 'theirs'}"
    merged = load_policy(PolicyConfig(model=str(tmp_path / "merged")))
    assert torch.allclose(logprobs(load_policy(config)), logprobs(merged), atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "IA3"}, "an adapter of the kind IA3; vlrft reads LORA"),
        ({"modules_to_save": ["lm_head"]}, "also replaces the modules lm_head"),
        (
            {"use_dora": True},
            "an adapter with use_dora, which is more than low-rank matrices; merge it",
        ),
        (
            {"lora_bias": True},
            "an adapter with lora_bias, which is more than low-rank matrices; merge",
        ),
        ({"base_model_name_or_path": None}, "names no model; set policy.model"),
        ({"r": 5}, "cannot be applied to this model"),
        ({"target_modules": ["q_proj"]}, "48 weights for 4 places in this model; it belongs to"),
    ],
)
def test_an_adapter_that_cannot_be_used_says_why(
    lora_checkpoint: Path, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    for file in (lora_checkpoint / "adapter").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ConfigError, match=message):
        load_policy(PolicyConfig(adapter=str(tmp_path)))


def test_places_without_an_adapter_and_adapters_as_models_are_refused(
    lora_checkpoint: Path,
) -> None:
    with pytest.raises(ConfigError, match=r"no adapter_config.json here; the adapter is .*adapter"):
        load_policy(PolicyConfig(adapter=str(lora_checkpoint)))
    with pytest.raises(ConfigError, match=r"a LoRA adapter; policy.adapter=.* trains it further"):
        load_policy(PolicyConfig(model=str(lora_checkpoint / "adapter")))
    with pytest.raises(ConfigError, match=r"policy.adapter: belongs to the weights"):
        load_policy(tiny_config("qwen2_vl", adapter=str(lora_checkpoint / "adapter")))
    with pytest.raises(ValueError, match="give either lora"):
        PolicyConfig(adapter="x", lora=LoraConfig())


def test_the_adapter_of_a_policy_that_was_built_points_to_the_merged_weights(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.json").write_text("{}")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2}')
    (adapter / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(ConfigError, match="merged with it: "):
        exact_policy(PolicyConfig(model=str(adapter)))
