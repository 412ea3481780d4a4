"""The folder of a policy with adapters, written one tensor at a time."""

from __future__ import annotations

import copy
import json
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from tests.policy.test_load import with_random_adapters
from vlrft.config import LoraConfig
from vlrft.policy.load import load_policy
from vlrft.policy.merging import PlainWeights, write_model
from vlrft.policy.weight_files import INDEX, write_weights
from vlrft.testing.small_policies import CORPUS, FAMILIES, Family, tiny_config


def whole_merge(model: Any, folder: Path) -> None:
    """The same folder as peft and transformers write it, with a second model in memory."""
    copy.deepcopy(model).merge_and_unload().save_pretrained(folder)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_files_are_those_of_a_whole_merge_byte_for_byte(family: Family, tmp_path: Path) -> None:
    config = tiny_config(family, lora=LoraConfig(rank=2), dtype="bfloat16")
    policy = with_random_adapters(load_policy(config, corpus=CORPUS))
    before = {name: tensor.clone() for name, tensor in policy.model.state_dict().items()}
    whole_merge(policy.model, tmp_path / "whole")
    write_model(policy.model, tmp_path / "streamed")
    assert files_of(tmp_path / "streamed") == files_of(tmp_path / "whole")
    after = policy.model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
def test_adapters_of_an_untied_head_are_merged(tmp_path: Path) -> None:
    from peft import LoraConfig as PeftConfig
    from peft import get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    base = Qwen2ForCausalLM(Qwen2Config(**sizes, **heads, vocab_size=32, tie_word_embeddings=False))
    targets = ["lm_head", "embed_tokens", "q_proj"]
    model = get_peft_model(base, PeftConfig(r=2, target_modules=targets, init_lora_weights=False))
    whole_merge(model, tmp_path / "whole")
    write_model(model, tmp_path / "streamed")
    assert files_of(tmp_path / "streamed") == files_of(tmp_path / "whole")


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
def test_fused_experts_are_stored_as_on_the_hub(tmp_path: Path) -> None:
    from peft import LoraConfig as PeftConfig
    from peft import get_peft_model
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    sizes: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 8, "moe_intermediate_size": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8}
    layers = {"num_hidden_layers": 1, "num_experts": 4, "vocab_size": 32}
    base = Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes, **heads, **layers))
    settings = PeftConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    model = get_peft_model(base, settings)
    whole_merge(model, tmp_path / "whole")
    write_model(model, tmp_path / "streamed")
    assert files_of(tmp_path / "streamed") == files_of(tmp_path / "whole")
    assert "model.layers.0.mlp.experts.3.up_proj.weight" in load_file(
        tmp_path / "streamed" / "model.safetensors"
    )


def test_one_merged_tensor_is_held_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = load_policy(tiny_config("qwen2", lora=LoraConfig(rank=2)), corpus=CORPUS)
    merged: list[weakref.ref[Tensor]] = []
    read, callers = PlainWeights.read, 0

    def watch(weights: PlainWeights, name: str) -> Tensor:
        assert sum(reference() is not None for reference in merged) <= callers
        tensor = read(weights, name)
        merged.append(weakref.ref(tensor))
        return tensor

    monkeypatch.setattr(PlainWeights, "read", watch)
    policy.save_merged(tmp_path)
    names = load_file(tmp_path / "model.safetensors").keys()
    assert len(merged) == len(names) > 20
    merged.clear()
    callers = 1  # the loop that asks for the next weight has the one before
    assert sum(1 for _ in policy.weights()) == len(names)


def test_large_models_are_sharded_with_an_index(tmp_path: Path) -> None:
    numbers = {f"layer.{k}": torch.randn(3, 5) for k in range(7)} | {"scale": torch.tensor(2.0)}
    numbers["half"] = torch.randn(3).bfloat16()
    shapes = {name: tensor.to("meta") for name, tensor in numbers.items()}
    write_weights(tmp_path, shapes, numbers.__getitem__, shard_bytes=130)
    index = json.loads((tmp_path / INDEX).read_text())
    assert set(index["weight_map"]) == set(numbers)
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in numbers.values())
    shards = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert shards == [f"model-0000{k}-of-00004.safetensors" for k in range(1, 5)]
    for shard in shards:
        for name, tensor in load_file(tmp_path / shard).items():
            assert index["weight_map"][name] == shard
            assert tensor.dtype == numbers[name].dtype
            assert torch.equal(tensor, numbers[name])


def test_a_tensor_of_another_shape_is_no_silent_damage(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x: torch\.float32"):
        write_weights(tmp_path, {"x": torch.empty(2, device="meta")}, lambda _: torch.zeros(3))


def test_buffers_are_stored_only_where_they_are_persistent() -> None:
    module = nn.Module()
    module.register_buffer("stored", torch.ones(2))
    module.register_buffer("computed", torch.ones(2), persistent=False)
    assert list(PlainWeights(module).shapes) == ["stored"]
