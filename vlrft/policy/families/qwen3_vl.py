"""Qwen3-VL: features of several layers of the tower enter the first layers of the decoder (deepstack)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from vlrft.config import BuildConfig
from vlrft.memory.shapes import VisionShape
from vlrft.policy.families import EXPERTS, qwen2_vl
from vlrft.policy.families._qwen import build_tokenizer
from vlrft.policy.families._qwen_vision import MERGE, QwenVision
from vlrft.policy.families._tower_arguments import Tower
from vlrft.policy.image_features import ImageFeatures

# Layers of the tower whose features enter the decoder, one after each of its first layers.
DEEPSTACK = 3
# Learned positions of the tower a side; that of a patch is interpolated from four.
POSITIONS = 48
VISION_MLP_RATIO = 4


class DeepstackVision(QwenVision):
    patch = 16
    released_max_pixels = 16_777_216
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

    def tower_shape(self, model: Any) -> VisionShape:
        """Each merger but the last one reads what a layer of the tower has saved already."""
        vision = model.config.vision_config
        deepstack = len(vision.deepstack_visual_indexes)
        return VisionShape(
            width=vision.hidden_size,
            layers=vision.depth,
            heads=vision.num_heads,
            inner=vision.intermediate_size,
            gated=False,
            activated=1,
            values=vision.in_channels * vision.temporal_patch_size * vision.patch_size**2,
            merge=vision.spatial_merge_size**2,
            projected=(4 + 3 * deepstack) * vision.hidden_size,
            features=1 + deepstack,
            interpolated=4,
        )


def _model_config(config: BuildConfig, tokenizer: Any) -> Any:
    from transformers import Qwen3VLConfig

    settings = qwen2_vl.multimodal_settings(config, tokenizer)
    text, vision = settings["text_config"], settings["vision_config"]
    head = config.hidden_size // config.heads
    side = 5 * head // 32  # the released models' share of the rotary pairs
    text |= {"head_dim": head}
    text["rope_parameters"] |= {
        "mrope_section": [head // 2 - 2 * side, side, side],
        "mrope_interleaved": True,
    }
    vision |= {
        "hidden_size": config.vision_width,
        "out_hidden_size": config.hidden_size,
        "intermediate_size": VISION_MLP_RATIO * config.vision_width,
        "patch_size": VISION.patch,
        "spatial_merge_size": MERGE,
        "num_position_embeddings": POSITIONS**2,
        "deepstack_visual_indexes": _deepstack_layers(config.vision_layers),
    }
    return Qwen3VLConfig(**settings)


def _deepstack_layers(layers: int) -> list[int]:
    """As in the released models, spread over the tower and none the last, where it has layers enough."""
    if layers <= DEEPSTACK:
        return list(range(layers))
    return [(k + 1) * layers // (DEEPSTACK + 1) for k in range(DEEPSTACK)]


VISION = DeepstackVision()

FAMILY = replace(
    qwen2_vl.FAMILY,
    vision=VISION,
    attention_class=None,  # it norms queries and keys
    model_class="Qwen3VLForConditionalGeneration",
    model_config=_model_config,
    build_tokenizer=partial(build_tokenizer, template="qwen3_vl.jinja"),
    refused={"Qwen3VLMoeForConditionalGeneration": EXPERTS},
    unscaled=("patch_embed", "pos_embed"),
    box_unit="thousandths",
)
