"""Model families: how they are found, what they refuse, and what they pass to the decoder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from tests.conftest import Tiny
from vlrft.config import BuildConfig, PolicyConfig
from vlrft.policy.families import all_families, vision_families, vision_family
from vlrft.policy.image_features import ImageFeatures
from vlrft.policy.load import load_chat, load_policy
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.schema import IMAGE, DataError
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import ask, noise_image
from vlrft.trainer.memory_plan.model_shapes import make_meta_model


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


def test_a_model_of_a_subclass_is_of_the_family(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny("qwen2_5_vl")
    sharded = type("Sharded", (type(policy.model),), {})  # as FSDP makes one
    monkeypatch.setattr(policy.model, "__class__", sharded)
    assert vision_family(policy.model) is all_families()["qwen2_5_vl"].vision


def test_a_class_that_no_family_names_is_the_reason_of_a_refusal(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny("qwen2_vl").save(tmp_path)
    others = {name: f for name, f in all_families().items() if name != "qwen2_vl"}
    monkeypatch.setattr("vlrft.policy.families.all_families", lambda: others)
    message = r"qwen2_vl is not supported: no family has its class, Qwen2VLFor.*glm4v, qwen2_5_vl"
    with pytest.raises(ConfigError, match=message):
        load_policy(PolicyConfig(model=str(tmp_path)))


def test_the_model_says_which_token_is_an_image(tiny: Tiny, tmp_path: Path) -> None:
    """As GLM-4V, which takes images as Qwen2-VL does, by another token."""
    policy = tiny("qwen2_vl")
    policy.save(tmp_path)
    for path in tmp_path.iterdir():
        if path.suffix in (".json", ".jinja"):
            path.write_text(path.read_text().replace("<|image_pad|>", "<|image|>"))
    loaded = load_policy(PolicyConfig(model=str(tmp_path)))
    assert loaded.chat.place_tokens[0] == "<|image|>"
    prompt = loaded.chat.render(ask(IMAGE, "?"), [noise_image(56, 56)])
    assert prompt.ids == policy.chat.render(ask(IMAGE, "?"), [noise_image(56, 56)]).ids


EXPERTS = {"num_experts": 4, "n_routed_experts": 4, "moe_intermediate_size": 8}


@pytest.mark.parametrize(
    ("family", "kind", "decoder"),
    [
        ("qwen3_vl", "Qwen3VLMoeConfig", "qwen3_vl_moe_text"),
        ("qwen3_5", "Qwen3_5MoeConfig", "qwen3_5_moe_text"),
        ("glm4v", "Glm4vMoeConfig", "glm4v_moe_text"),
        ("glm4v", "Glm46VConfig", "glm4v_moe_text"),
    ],
)
def test_experts_are_the_reason_of_a_refusal(
    tiny: Tiny, tmp_path: Path, family: str, kind: str, decoder: str
) -> None:
    """No weight is read: there are none."""
    import transformers

    dense = tiny(family).model.config.to_dict()
    text = {**dense["text_config"], **EXPERTS, "model_type": decoder}
    vision = {**dense["vision_config"], "model_type": f"{decoder.removesuffix('_text')}_vision"}
    getattr(transformers, kind)(text_config=text, vision_config=vision).save_pretrained(tmp_path)
    config = PolicyConfig(model=str(tmp_path))
    message = (
        r"is not supported: its decoder routes tokens to experts, .*; use a dense model; vlrft"
    )
    for load in (load_chat, partial(make_meta_model, tokenizer=None)):
        with pytest.raises(ConfigError, match=message):
            load(config)


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
    (pixels,) = policy.chat.process_images([noise_image(140, 28, seed=77)])
    assert pixels.tokens == len(pixels.values)
    encoder = policy.backbone.image_encoder
    assert encoder is not None
    with pytest.raises(DataError, match="the image processor is not the model's"):
        encoder.encode([pixels], policy.device)
