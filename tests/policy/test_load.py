"""Loading, saving, freezing, LoRA, and the one-line errors."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest
import torch
from PIL import Image

from tests.conftest import Tiny
from vlrft.config import BuildConfig, LoraConfig, PolicyConfig
from vlrft.policy.families.qwen2_vl import QWEN_VISION
from vlrft.policy.load import load_policy, vision_warning
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.schema import IMAGE, Prompt, Resize
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import CORPUS, FAMILIES, Family, ask, noise_image, tiny_config
from vlrft.vision.boxes import resized_size
from vlrft.vision.processor import prepare_torchvision

LORA = LoraConfig(rank=4, alpha=8)


def prompt_of(policy: Policy, image: Image.Image) -> Prompt:
    if not policy.backbone.multimodal:
        return policy.chat.render(ask("Which digit is this?"))
    return policy.chat.render(ask(IMAGE, "Which digit is this?"), [image])


def logprobs(policy: Policy) -> torch.Tensor:
    item = PackItem(prompt=prompt_of(policy, noise_image(56, 84)), rows=((5, 6, 7),))
    mask = torch.ones(1, 3, dtype=torch.bool)
    with torch.no_grad():
        return packed_logprobs(policy, [item], mask=mask, temperature=1.0).logprobs


def with_random_adapters(policy: Policy) -> Policy:
    """The policy after its adapters got random values: new ones compute the identity."""
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.05, generator=torch.Generator().manual_seed(0))
    return policy


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_policy_loads_with_plain_transformers_and_here(
    tiny: Tiny, tmp_path: Path, family: Family
) -> None:
    from transformers import (
        AutoImageProcessor,
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
        AutoTokenizer,
    )

    policy = tiny(family)
    policy.save(tmp_path)
    auto = AutoModelForCausalLM if family == "qwen2" else AutoModelForImageTextToText
    plain = auto.from_pretrained(tmp_path)
    weights = policy.model.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in plain.state_dict().items())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.get_vocab() == policy.chat.tokenizer.get_vocab()
    assert tokenizer.chat_template == policy.chat.tokenizer.chat_template
    if family != "qwen2":
        backend = prepare_torchvision().backend
        processor = AutoImageProcessor.from_pretrained(tmp_path, backend=backend)
        made = processor(images=[noise_image(70, 90)], return_tensors="pt")["pixel_values"]
        shown = policy.chat.render(ask(IMAGE), [noise_image(70, 90)])
        assert torch.equal(made, shown.images[0].values)
    again = load_policy(PolicyConfig(model=str(tmp_path)))
    assert again.chat.banned_ids == policy.chat.banned_ids
    assert again.chat.end_ids == policy.chat.end_ids
    assert torch.equal(logprobs(again), logprobs(policy))
    assert not list(tmp_path.glob("*.bin"))


def test_the_files_name_the_processor_that_autoprocessor_looks_for(
    tiny: Tiny, tmp_path: Path
) -> None:
    import json

    tiny("qwen2_5_vl").save(tmp_path)
    settings = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert settings["processor_class"] == "Qwen2_5_VLProcessor"
    assert settings["image_processor_type"] == "Qwen2VLImageProcessor"


def test_pixel_bounds_reach_the_processor() -> None:
    policy = load_policy(
        tiny_config("qwen2_vl", min_pixels=112 * 112, max_pixels=168 * 168), corpus=CORPUS
    )
    grids = [policy.chat.render(ask(IMAGE), [noise_image(s, s)]).images[0].grid for s in (56, 400)]
    assert grids == [(1, 8, 8), (1, 12, 12)]
    expected = Resize(min_pixels=112 * 112, max_pixels=168 * 168, factor=28)
    assert policy.chat.resize == expected
    assert [resized_size(s, s, **asdict(expected)) for s in (56, 400)] == [(112, 112), (168, 168)]
    other = SimpleNamespace(size={"height": 1}, patch_size=14, merge_size=2)
    assert QWEN_VISION.resize(other) is None


@pytest.mark.parametrize(
    ("name", "expected"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)]
)
def test_dtype(name: str, expected: torch.dtype) -> None:
    policy = load_policy(tiny_config("qwen2_vl", dtype=name), corpus=CORPUS)
    assert {p.dtype for p in policy.model.parameters()} == {expected}
    assert logprobs(policy).dtype == torch.float32


@pytest.mark.parametrize(
    ("names", "frozen"),
    [
        (("vision",), {"model.visual.blocks.0.attn.qkv.weight"}),
        (("projector",), {"model.visual.merger.mlp.0.weight"}),
        (("language",), {"model.language_model.embed_tokens.weight"}),
        (("*.layers.0.*",), {"model.language_model.layers.0.mlp.up_proj.weight"}),
    ],
)
def test_parts_are_frozen_by_name(names: tuple[str, ...], frozen: set[str]) -> None:
    policy = load_policy(tiny_config("qwen2_vl", freeze=names), corpus=CORPUS)
    all_of = {
        "model.visual.blocks.0.attn.qkv.weight",
        "model.visual.merger.mlp.0.weight",
        "model.language_model.embed_tokens.weight",
        "model.language_model.layers.0.mlp.up_proj.weight",
    }
    if names == ("language",):
        frozen = {n for n in all_of if "language_model" in n}
    fixed = {n for n, p in policy.model.named_parameters() if not p.requires_grad}
    assert fixed & all_of == frozen
    assert not fixed & set(policy.trained_weights())


def test_freezing_a_part_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"policy\.freeze: 'visoin' matches no parameter"):
        load_policy(tiny_config("qwen2_vl", freeze=("visoin",)), corpus=CORPUS)
    with pytest.raises(ConfigError, match="'vision' matches no parameter"):
        load_policy(tiny_config("qwen2", freeze=("vision",)), corpus=CORPUS)
    with pytest.raises(ConfigError, match="leaves nothing to train"):
        load_policy(tiny_config("qwen2", freeze=("*",)), corpus=CORPUS)


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2"])
def test_lora_saves_merged_weights_and_its_adapters(tmp_path: Path, family: Family) -> None:
    policy = with_random_adapters(load_policy(tiny_config(family, lora=LORA), corpus=CORPUS))
    assert all("lora_" in name for name in policy.trained_weights())
    bits = {n: p.clone() for n, p in policy.model.named_parameters()}
    before = logprobs(policy)
    policy.save(tmp_path)
    assert all(torch.equal(bits[n], p) for n, p in policy.model.named_parameters())
    merged = load_policy(PolicyConfig(model=str(tmp_path)))
    assert not merged.has_lora
    assert torch.allclose(logprobs(merged), before, atol=1e-5)
    assert (tmp_path / "adapter" / "adapter_model.safetensors").is_file()
    assert not torch.allclose(logprobs(policy.reference()), before, atol=1e-3)


def test_the_reference_of_a_lora_policy_is_its_model_without_adapters() -> None:
    plain = load_policy(tiny_config("qwen2_vl"), corpus=CORPUS)
    policy = with_random_adapters(load_policy(tiny_config("qwen2_vl", lora=LORA), corpus=CORPUS))
    reference = policy.reference()
    assert reference.model is policy.model
    assert torch.equal(logprobs(reference), logprobs(plain))
    assert reference.trained_weights() == {}
    assert not torch.equal(logprobs(policy), logprobs(plain))


def test_a_reference_does_not_change_with_the_policy() -> None:
    policy = load_policy(tiny_config("qwen2"), corpus=CORPUS)
    reference = policy.reference()
    before = logprobs(policy)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(0.01)
    assert torch.equal(logprobs(reference), before)
    assert not torch.equal(logprobs(policy), before)
    assert not any(p.requires_grad for p in reference.model.parameters())
    assert reference.trained_weights().keys() == policy.trained_weights().keys()


def test_trained_weights_are_copied_bit_by_bit() -> None:
    one = load_policy(tiny_config("qwen2_vl"), corpus=CORPUS, seed=0)
    two = load_policy(tiny_config("qwen2_vl"), corpus=CORPUS, seed=1)
    two.load_weights(one.trained_weights())
    assert torch.equal(logprobs(one), logprobs(two))
    frozen = load_policy(tiny_config("qwen2_vl", freeze=("vision",)), corpus=CORPUS)
    with pytest.raises(
        ConfigError, match=r"model\.visual.*in the checkpoint or in the policy, but not in both"
    ):
        frozen.load_weights(one.trained_weights())


def test_models_that_cannot_be_loaded(tiny: Tiny, tmp_path: Path) -> None:
    def error(**settings: object) -> str:
        with pytest.raises(ConfigError) as caught:
            load_policy(PolicyConfig(**settings))  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "set either model" in error()
    assert "set either model" in error(model="x", build=tiny_config("qwen2").build)
    assert "no such folder" in error(model=str(tmp_path / "none"))
    assert "no config.json" in error(model=str(tmp_path))
    tiny("qwen2").save(tmp_path)
    broken = tmp_path / "model.safetensors"
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    assert "cannot be loaded" in error(model=str(tmp_path))
    broken.unlink()
    assert "no weights (*.safetensors)" in error(model=str(tmp_path))
    shutil.copy(tmp_path / "config.json", tmp_path / "kept.json")
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    broken.write_bytes(whole)
    assert "not supported" in error(model=str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    assert "cannot be loaded" in error(model=str(tmp_path))


def test_missing_flash_attention_is_one_line_of_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("flash_attn_2", "kernels"):
        monkeypatch.setattr(f"transformers.utils.is_{package}_available", lambda: False)
    config = tiny_config("qwen2_vl", attention="flash_attention_2")
    with pytest.raises(
        ConfigError, match=r"^policy.attention: flash_attention_2 needs .*install flash-attn"
    ):
        load_policy(config, corpus=CORPUS, device="cuda")


@pytest.mark.parametrize("stored", [False, True])
def test_attention_that_a_model_does_not_support_is_one_line_of_error(
    tmp_path: Path, stored: bool
) -> None:
    config = tiny_config("glm4v", attention="flex_attention")
    if stored:
        load_policy(tiny_config("glm4v"), corpus=CORPUS).save(tmp_path)
        config = PolicyConfig(model=str(tmp_path), attention="flex_attention")
    with pytest.raises(
        ConfigError,
        match=r"^policy.attention: transformers has no flex_attention for this model; use sdpa$",
    ):
        load_policy(config, corpus=CORPUS, device="meta")


@pytest.mark.parametrize("attention", ["flex_attention", "flash_attention_2"])
def test_attention_that_needs_a_gpu_is_refused_on_a_cpu(
    attention: Literal["flex_attention", "flash_attention_2"],
) -> None:
    with pytest.raises(
        ConfigError, match=rf"^policy.attention: {attention} cannot train on a CPU; use sdpa"
    ):
        load_policy(tiny_config("qwen2_vl", attention=attention), corpus=CORPUS)


def test_a_model_with_a_sliding_window_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    from transformers import MistralConfig, MistralForCausalLM

    chat = tiny("qwen2").chat
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    for window in (None, 8):
        ends = {"bos_token_id": chat.pad_id, "eos_token_id": chat.end_id, "sliding_window": window}
        config = MistralConfig(vocab_size=len(chat.tokenizer), **sizes, **heads, **ends)
        MistralForCausalLM(config).save_pretrained(tmp_path)
        chat.save(tmp_path)
        if window is None:
            load_policy(PolicyConfig(model=str(tmp_path)))
        else:
            with pytest.raises(
                ConfigError,
                match=r"mistral is not supported: some of its layers do not attend to all",
            ):
                load_policy(PolicyConfig(model=str(tmp_path)))


def test_missing_weights_are_an_error(tiny: Tiny, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    tiny("qwen2").save(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    tensors.pop("model.layers.1.mlp.up_proj.weight")
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(
        ConfigError, match=r"1 weights are missing, such as model.layers.1.mlp.up_proj"
    ):
        load_policy(PolicyConfig(model=str(tmp_path)))


def test_a_tokenizer_without_chat_template_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    tiny("qwen2").save(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match="no chat template"):
        load_policy(PolicyConfig(model=str(tmp_path)))


def test_bounds_of_pixels_of_a_text_only_policy_are_named(tiny: Tiny) -> None:
    bounded = PolicyConfig(model="x", min_pixels=784, max_pixels=5000)
    said = "the policy takes text only: policy.min_pixels, policy.max_pixels have no effect"
    assert vision_warning(bounded, tiny("qwen2").chat) == said
    assert vision_warning(bounded, tiny("qwen2_vl").chat) is None
    assert vision_warning(PolicyConfig(model="x"), tiny("qwen2").chat) is None


def test_sizes_of_a_vision_model_that_a_text_only_policy_lacks_are_named(tiny: Tiny) -> None:
    build = BuildConfig(family="qwen2", vision_layers=5)
    said = "the policy takes text only: policy.build.vision_layers has no effect"
    assert vision_warning(PolicyConfig(build=build), tiny("qwen2").chat) == said
    assert vision_warning(PolicyConfig(build=BuildConfig()), tiny("qwen2").chat) is None
    assert vision_warning(PolicyConfig(build=build), tiny("qwen2_vl").chat) is None
