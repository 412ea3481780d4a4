"""Model families: how they are found, what they refuse, and what they pass to the decoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from tests.conftest import Tiny
from vlrft.config import BuildConfig, PolicyConfig
from vlrft.policy.families import all_families, vision_families, vision_family
from vlrft.policy.families.qwen2_vl import QwenVision
from vlrft.policy.image_features import ImageFeatures
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.schema import IMAGE, DataError
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import ask, noise_image


def features(start: int, count: int, layers: int) -> ImageFeatures:
    rows = torch.arange(start, start + count)[:, None] * torch.ones(1, 3)
    return ImageFeatures(embeds=rows, layers=tuple(rows * 10**k for k in range(1, layers + 1)))


def test_the_config_names_the_families_that_exist() -> None:
    build = TypeAdapter(BuildConfig)
    for name in all_families():
        assert build.validate_python({"family": name}).family == name
    with pytest.raises(ValidationError, match="qwen2_5_vl"):
        build.validate_python({"family": "qwen2vl"})


@pytest.mark.parametrize("family", sorted(all_families()))
def test_a_model_is_of_the_family_that_built_it(tiny: Tiny, family: Any) -> None:
    policy = tiny(family)
    assert vision_family(policy.model) is all_families()[family].vision
    assert policy.backbone.multimodal == (family in vision_families())


class Careless(QwenVision):
    """Fits every model; `model_class` decides."""

    def mismatch(self, model: Any) -> None:
        return None


def test_the_family_of_a_model_s_own_class_is_preferred(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, families = tiny("qwen2_5_vl"), dict(all_families())
    other = replace(families["qwen2_vl"], vision=Careless(), model_class="Other")
    monkeypatch.setattr("vlrft.policy.families.all_families", lambda: {"a": other, **families})
    assert vision_family(policy.model) is families["qwen2_5_vl"].vision
    sharded = type("Sharded", (type(policy.model),), {})  # as FSDP makes one
    monkeypatch.setattr(policy.model, "__class__", sharded)
    assert vision_family(policy.model) is families["qwen2_5_vl"].vision
    own = replace(families["qwen2_5_vl"], model_class="Unknown")
    monkeypatch.setattr(
        "vlrft.policy.families.all_families", lambda: {"b": own, "z": families["qwen2_vl"]}
    )
    assert vision_family(policy.model) is own.vision  # no class is its own: the first by name


def test_the_model_says_which_token_is_an_image(tiny: Tiny, tmp_path: Path) -> None:
    """As GLM-4V, which takes images as Qwen2-VL does, by another token."""
    policy = tiny("qwen2_vl")
    policy.save(tmp_path)
    for path in tmp_path.iterdir():
        if path.suffix in (".json", ".jinja"):
            path.write_text(path.read_text().replace("<|image_pad|>", "<|image|>"))
    loaded = load_policy(PolicyConfig(model=str(tmp_path)))
    assert loaded.chat.image_token == "<|image|>"
    prompt = loaded.chat.render(ask(IMAGE, "?"), [noise_image(56, 56)])
    assert prompt.ids == policy.chat.render(ask(IMAGE, "?"), [noise_image(56, 56)]).ids


def test_features_in_deeper_layers_are_the_reason_of_a_refusal(tiny: Tiny, tmp_path: Path) -> None:
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    chat = tiny("qwen2_vl").chat
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 32}
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
    config = Qwen3VLConfig(
        text_config={
            **sizes,
            "vocab_size": len(chat.tokenizer),
            "num_hidden_layers": 1,
            "head_dim": 8,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "rope_parameters": rope,
        },
        vision_config={
            **sizes,
            "depth": 1,
            "num_heads": 2,
            "out_hidden_size": 32,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0],
        },
    )
    make: Any = Qwen3VLForConditionalGeneration
    make(config).save_pretrained(tmp_path)
    chat.save(tmp_path)
    with pytest.raises(
        ConfigError, match=r"qwen3_vl is not supported: .*\(deepstack\); .* qwen2_5_vl, qwen2_vl"
    ):
        load_policy(PolicyConfig(model=str(tmp_path)))


@pytest.mark.parametrize("layers", [0, 2])
def test_features_are_split_by_image_and_joined_again(layers: int) -> None:
    whole = features(0, 7, layers)
    parts = whole.split([2, 4, 1])
    assert [len(part) for part in parts] == [2, 4, 1]
    assert [part.nbytes for part in parts] == [n * 3 * 4 * (1 + layers) for n in (2, 4, 1)]
    assert parts[1].embeds[:, 0].tolist() == [2, 3, 4, 5]
    again = ImageFeatures.concatenate(parts)
    for tensor, expected in zip(
        (again.embeds, *again.layers), (whole.embeds, *whole.layers), strict=True
    ):
        assert torch.equal(tensor, expected)


def test_a_family_passes_features_to_the_decoder(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image that two prompts show has its features at both places, one for each image token."""
    policy = tiny("qwen2_vl")
    vision = policy.backbone.vision
    assert vision is not None
    passed: list[tuple[ImageFeatures, Tensor]] = []

    def decoder_arguments(features: ImageFeatures, places: Tensor) -> dict[str, Any]:
        passed.append((features, places))
        return {"deepstack": len(features)}

    calls: list[dict[str, Any]] = []
    decoder = policy.backbone.call_decoder

    def call_decoder(embeds: Tensor, positions: Tensor, **options: Any) -> Tensor:
        calls.append({"deepstack": options.pop("deepstack", None)})
        return decoder(embeds, positions, **options)

    monkeypatch.setattr(vision, "decoder_arguments", decoder_arguments)
    monkeypatch.setattr(policy.backbone, "call_decoder", call_decoder)
    picture = noise_image(56, 84)
    prompts = [policy.chat.render(ask(IMAGE, text), [picture]) for text in ("a", "b")]
    items = [PackItem(prompt=prompt, rows=((5, 6),)) for prompt in prompts]
    packed_logprobs(policy, items, mask=torch.ones(2, 2, dtype=torch.bool), temperature=1.0)
    ((made, places),) = passed
    assert calls == [{"deepstack": 12}]
    assert len(made) == int(places.sum()) == 12  # 2 x 3 features each
    assert torch.equal(made.embeds[:6], made.embeds[6:])


def test_an_image_processor_that_is_not_the_models_is_an_error(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny("qwen2_vl")
    monkeypatch.setattr(policy.chat.image_processor, "merge_size", 1)
    pixels = policy.chat.process_image(noise_image(140, 28, seed=77))
    assert pixels.tokens == len(pixels.values)
    encoder = policy.backbone.image_encoder
    assert encoder is not None
    with pytest.raises(DataError, match="the image processor is not the model's"):
        encoder.encode([pixels], policy.device)
