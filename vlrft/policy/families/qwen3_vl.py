"""Qwen3-VL: features of several layers of the tower enter the first layers of the decoder (deepstack)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from vlrft.config import BuildConfig
from vlrft.policy.families import EXPERTS, _qwen3
from vlrft.policy.families._tower_arguments import Tower
from vlrft.policy.image_features import ImageFeatures

# Layers of the tower whose features enter the decoder, one after each of its first layers.
DEEPSTACK = 3


class DeepstackVision(_qwen3.Qwen3Vision):
    tower = Tower(name="Qwen3VLVisionModel", interpolated=True)

    def is_projector(self, parameter: str) -> bool:
        """The merger of the last layer, and one for each layer of deepstack."""
        return self.is_vision(parameter) and "merger" in parameter

    def features(self, encoded: Any) -> ImageFeatures:
        return ImageFeatures(
            embeds=torch.cat(tuple(encoded.pooler_output)),
            layers=tuple(torch.cat(tuple(layer)) for layer in encoded.deepstack_features),
        )

    def decoder_arguments(
        self, features: ImageFeatures, places: Bool[Tensor, "B L"]
    ) -> dict[str, Any]:
        return {"visual_pos_masks": places, "deepstack_visual_embeds": list(features.layers)}

    def deepstack_layers(self, vision: Any) -> int:
        return len(vision.deepstack_visual_indexes)


def _model_config(config: BuildConfig, tokenizer: Any) -> Any:
    from transformers import Qwen3VLConfig

    settings = _qwen3.multimodal_settings(config, tokenizer)
    head = config.hidden_size // config.heads
    side = 5 * head // 32  # the released models' share of the rotary pairs
    sections = [head // 2 - 2 * side, side, side]
    settings["text_config"]["rope_parameters"] |= {"mrope_section": sections}
    indexes = _deepstack_layers(config.vision_layers)
    settings["vision_config"] |= {"deepstack_visual_indexes": indexes}
    return Qwen3VLConfig(**settings)


def _deepstack_layers(layers: int) -> list[int]:
    """As in the released models, spread over the tower and none the last, where it has layers enough."""
    if layers <= DEEPSTACK:
        return list(range(layers))
    return [(k + 1) * layers // (DEEPSTACK + 1) for k in range(DEEPSTACK)]


VISION = DeepstackVision()

FAMILY = replace(
    _qwen3.SHARED,
    vision=VISION,
    model_class="Qwen3VLForConditionalGeneration",
    model_config=_model_config,
    refused={"Qwen3VLMoeForConditionalGeneration": EXPERTS},
    box_unit="thousandths",
)
