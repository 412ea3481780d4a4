"""Qwen3-VL: features of deeper layers (deepstack) in the prefill and in the packed pass, and none in decoding; its prompts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.conftest import Tiny
from vlrft.memory.shapes import VisionShape
from vlrft.policy.logprobs import self_check
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import IMAGE, Message
from vlrft.schema.errors import SelfCheckError
from vlrft.testing.small_policies import ask, noise_image
from vlrft.vision.boxes import resized_size


@pytest.fixture
def policy(tiny: Tiny) -> Policy:
    return tiny("qwen3_vl")


def items_of(policy: Policy) -> list[PackItem]:
    """Ragged groups with no image, one, and two of different sizes."""
    wide, tall = noise_image(96, 64, 1), noise_image(64, 128, 2)
    render = policy.chat.render
    return [
        PackItem(prompt=render(ask("How many?")), rows=((5, 6, 7), (8,))),
        PackItem(prompt=render(ask(IMAGE, "Which digit?"), [wide]), rows=((9, 10), (11, 12, 13))),
        PackItem(prompt=render(ask(IMAGE, "or", IMAGE), [wide, tall]), rows=((5,) * 5, (6, 7))),
    ]


def mask_of(items: list[PackItem]) -> Tensor:
    rows = [row for item in items for row in item.rows]
    return torch.tensor([[t < len(row) for t in range(5)] for row in rows])


def test_the_self_check_refuses_a_policy_without_deepstack(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = items_of(policy)
    assert self_check(policy, items, mask=mask_of(items), temperature=1.0) <= 1e-5
    vision = policy.backbone.vision
    assert vision is not None
    monkeypatch.setattr(vision, "decoder_arguments", lambda features, places: {})
    assert self_check(policy, items[:1], mask=mask_of(items)[:2], temperature=1.0) <= 1e-5
    with pytest.raises(SelfCheckError, match="packed and replicated log-probs differ by"):
        self_check(policy, items, mask=mask_of(items), temperature=1.0)


def test_features_enter_the_decoder_once_for_each_prompt(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, ...]] = []  # features of each layer, per call of the decoder
    call = policy.backbone.call_decoder

    def call_decoder(embeds: Tensor, positions: Tensor, **options: Any) -> Tensor:
        calls.append(tuple(len(layer) for layer in options.get("deepstack_visual_embeds", ())))
        return call(embeds, positions, **options)

    monkeypatch.setattr(policy.backbone, "call_decoder", call_decoder)
    prompt = items_of(policy)[2].prompt
    tokens = sum(image.tokens for image in prompt.images)
    requests = [Request(id="two images", prompt=prompt, seeds=(1, 2, 3))]
    HfEngine(policy).generate(requests, Sampling(max_tokens=4))
    assert calls[0] == (tokens, tokens)  # a tower of two layers
    assert len(calls) > 1
    assert set(calls[1:]) == {()}


def test_a_prompt_has_no_system_message_of_its_own_and_a_token_for_each_32_pixels(
    policy: Policy,
) -> None:
    prompt = policy.chat.render(
        (Message(role="user", content=(IMAGE, "Which digit?")),), [noise_image(96, 64)]
    )
    image = "<|image_pad|>" * (3 * 2)
    assert policy.chat.tokenizer.decode(prompt.ids) == (
        f"<|im_start|>user\n<|vision_start|>{image}<|vision_end|>Which digit?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert prompt.images[0].grid == (1, 4, 6)


@pytest.mark.parametrize("size", [(300, 233), (40, 500), (33, 33)])
def test_images_are_resized_to_multiples_of_32(policy: Policy, size: tuple[int, int]) -> None:
    rule = policy.chat.resize
    assert rule is not None
    assert rule.factor == 32
    grid = policy.chat.process_images([noise_image(*size)])[0].grid
    expected = resized_size(*size, rule.min_pixels, rule.max_pixels, rule.factor)
    assert (16 * grid[2], 16 * grid[1]) == expected


def test_the_plan_counts_four_mergers_and_four_tensors_of_features() -> None:
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    from vlrft.policy.families.qwen3_vl import VISION

    make: Any = Qwen3VLForConditionalGeneration
    with torch.device("meta"):
        model = make(Qwen3VLConfig(text_config={"num_hidden_layers": 1}))  # a released tower
    shape = VISION.tower_shape(model)
    assert isinstance(shape, VisionShape)
    assert (shape.layers, shape.features, shape.values) == (27, 4, 1536)
    assert shape.projected == (4 + 3 + 3 + 3) * 1152
    named = [name for name, _ in model.named_parameters()]
    projector = {name.split(".")[2] for name in named if VISION.is_projector(name)}
    assert projector == {"merger", "deepstack_merger_list"}
