"""The formulas for saved tensors against autograd itself, as `saved_tensors_hooks` shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from vlrft.config import LoraConfig
from vlrft.memory import saved_tensors
from vlrft.memory.shapes import MicroBatchShape, PackedPrompt, PromptSize
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.schema import Pixels, Prompt
from vlrft.testing.small_policies import CORPUS, FAMILIES, Family, tiny_config
from vlrft.trainer.memory_plan.model_shapes import load_model_shape

SIDE, TEXT, ROWS, TOKENS = 16, 40, 4, 21  # patches of an image's side; tokens
LORA = LoraConfig(rank=4)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"dtype": "bfloat16"},
    {"attention": "eager"},
    {"lora": LORA},
    {"lora": LORA, "dtype": "bfloat16"},
    {"freeze": ("vision", "projector")},
    {"freeze": ("language",)},
]
# Norms' inverse widths, indices and positions are not counted: a few percent of layers so narrow.
TOLERANCE = 0.06


def saved_bytes(config: Any) -> int:
    """Bytes that autograd saves, weights left out."""
    policy = load_policy(config, corpus=CORPUS)
    place = policy.backbone.place_ids[0]
    images: tuple[Pixels, ...] = ()
    if policy.backbone.vision is not None:
        patch = policy.backbone.vision.tower_shape(policy.model).values
        values = torch.randn(SIDE**2, patch)
        images = (Pixels(key="a", tokens=SIDE**2 // 4, grid=(1, SIDE, SIDE), values=values),)
    ids = (5,) * TEXT + (place,) * (SIDE**2 // 4 if images else 0)
    item = PackItem(prompt=Prompt(ids=ids, images=images), rows=((7,) * TOKENS,) * ROWS)
    weights = {p.untyped_storage().data_ptr() for p in policy.model.parameters()}
    sizes: dict[int, int] = {}  # by storage
    alive: list[Tensor] = []  # so that no storage's address is used again

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    mask = torch.ones(ROWS, TOKENS, dtype=torch.bool)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        packed_logprobs(policy, [item], mask=mask, temperature=1.0)
    return sum(sizes.values())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: " ".join(map(str, s)) or "plain")
def test_the_formulas_count_what_autograd_saves(family: Family, settings: dict[str, Any]) -> None:
    if family == "qwen2" and "freeze" in settings:
        pytest.skip("a text-only model has no other part")
    config = tiny_config(family, **settings)
    assert config.build is not None
    wider = replace(config.build, hidden_size=128, intermediate_size=320, vision_width=128)
    config = replace(config, build=wider)
    saved = saved_bytes(config)
    from vlrft.policy.tiny import build_tokenizer

    model = load_model_shape(config, tokenizer=build_tokenizer(wider, CORPUS), device="cpu")
    patches = SIDE**2 if model.tower is not None else 0
    prompt = PromptSize(tokens=TEXT + patches // 4, patches=patches)
    micro = MicroBatchShape([PackedPrompt(prompt=prompt, rows=(TOKENS,) * ROWS)])
    counted = saved_tensors.decoder(model, micro) + saved_tensors.tower(model, micro)
    assert counted == pytest.approx(saved, rel=TOLERANCE)
