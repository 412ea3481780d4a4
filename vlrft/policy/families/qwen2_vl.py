"""Qwen2-VL, and the models of transformers that take images in the same way, such as Qwen2.5-VL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from PIL.Image import Image
from torch import Tensor, nn

from vlrft.config import BuildConfig
from vlrft.distributed.cuda_settings import to_device
from vlrft.memory.shapes import VisionShape
from vlrft.policy.families import Family, ServedImage
from vlrft.policy.families._qwen import (
    END_OF_TEXT,
    IM_END,
    IMAGE_PAD,
    VIDEO_PAD,
    VISION_END,
    VISION_START,
    build_tokenizer,
    mistakes,
    text_settings,
)
from vlrft.policy.families._qwen_tower import tower_arguments
from vlrft.policy.image_features import ImageFeatures
from vlrft.schema import Pixels, Resize
from vlrft.vision.markup import MARKUP
from vlrft.vision.processor import prepare_torchvision

PATCH, MERGE = 14, 2  # side of a patch in pixels, side of an image token in patches
RELEASED_MAX_PIXELS = 12_845_056  # in the released models' preprocessor_config.json
VISION_MLP_RATIO = 2


class QwenVision:
    """Features replace the embeddings of `<|image_pad|>`, positions have three axes (time, height, width), and later decoder
    layers get no features."""

    axes = 3
    image_token = IMAGE_PAD
    image_text = f"{VISION_START}{IMAGE_PAD}{VISION_END}"
    markup = MARKUP

    def mismatch(self, model: Any) -> str | None:
        inner = getattr(model, "base_model", None)
        if not (hasattr(inner, "get_image_features") and hasattr(inner, "get_rope_index")):
            return "it has no get_image_features and get_rope_index"
        if hasattr(model.config.vision_config, "deepstack_visual_indexes"):
            return "image features enter several layers of its decoder (deepstack)"
        return None

    def build_processor(self) -> Any:
        """Patches of 14 pixels, merged 2 by 2."""
        if prepare_torchvision().backend == "pil":
            from transformers import Qwen2VLImageProcessorPil

            return Qwen2VLImageProcessorPil()
        from transformers import Qwen2VLImageProcessor

        return Qwen2VLImageProcessor()

    def set_pixel_bounds(self, processor: Any, low: int | None, high: int | None) -> None:
        size = dict(processor.size)
        if low is not None:
            size["shortest_edge"] = low  # areas, despite these names
        if high is not None:
            size["longest_edge"] = high
        processor.size = type(processor.size)(**size)

    def resize(self, processor: Any) -> Resize | None:
        settings = ("size", "patch_size", "merge_size")
        if not all(hasattr(processor, name) for name in settings):
            return None
        low, high = (processor.size.get(name) for name in ("shortest_edge", "longest_edge"))
        if low is None or high is None:
            return None
        factor = processor.patch_size * processor.merge_size
        return Resize(min_pixels=low, max_pixels=high, factor=factor)

    def process(self, processor: Any, image: Image, key: str) -> Pixels:
        inputs = processor(images=[image], return_tensors="pt")
        time, height, width = inputs["image_grid_thw"][0].tolist()
        return Pixels(
            key=key,
            tokens=time * height * width // processor.merge_size**2,
            grid=(time, height, width),
            values=inputs["pixel_values"],
        )

    def vision_tower(self, model: Any) -> nn.Module:
        tower: nn.Module = model.base_model.visual
        return tower

    def tower_layers(self, model: Any) -> nn.Module:
        layers: nn.Module = model.base_model.visual.blocks
        return layers

    def is_vision(self, parameter: str) -> bool:
        return "visual." in parameter

    def is_projector(self, parameter: str) -> bool:
        return ".merger." in parameter and self.is_vision(parameter)

    def encode(self, model: Any, images: Sequence[Pixels], device: Any) -> ImageFeatures:
        values = to_device(torch.cat([image.values for image in images]), device)
        grids = [image.grid for image in images]
        arguments = tower_arguments(model.base_model.visual, grids, device)
        grid = torch.tensor(grids, device=None if arguments else device)
        features = model.base_model.get_image_features(values, grid, return_dict=True, **arguments)
        return ImageFeatures(embeds=torch.cat(tuple(features.pooler_output)))

    def decoder_arguments(
        self, features: ImageFeatures, places: Bool[Tensor, "B L"]
    ) -> dict[str, Any]:
        return {}

    def positions(
        self, model: Any, places: Bool[np.ndarray, " L"], images: Sequence[Pixels]
    ) -> Int[Tensor, "A L"]:
        """The positions that the model's `get_rope_index` computes."""
        kinds = torch.from_numpy(places).int()[None]
        ids = torch.where(kinds > 0, model.config.image_token_id, 0).long()
        grids = torch.tensor([image.grid for image in images]) if images else None
        positions: Tensor
        positions, _ = model.base_model.get_rope_index(
            ids, mm_token_type_ids=kinds, image_grid_thw=grids
        )
        return positions[:, 0]

    def model_inputs(
        self, places: Bool[Tensor, "B L"], images: Sequence[Pixels]
    ) -> dict[str, Tensor]:
        return {
            "mm_token_type_ids": places.int(),
            "image_grid_thw": torch.tensor([image.grid for image in images]),
            "pixel_values": torch.cat([image.values for image in images]),
        }

    def serve(self, image: Pixels) -> ServedImage:
        """See `ServedImages`."""
        return ServedImage(
            rows={"pixel_values": image.values},
            values={"image_grid_thw": torch.tensor(image.grid)},
        )

    def tower_shape(self, model: Any) -> VisionShape:
        vision = model.config.vision_config
        gated = hasattr(vision, "out_hidden_size")  # as in Qwen2.5-VL
        width = vision.hidden_size if gated else vision.embed_dim
        temporal = getattr(vision, "temporal_patch_size", 2)
        return VisionShape(
            width=width,
            layers=vision.depth,
            heads=vision.num_heads,
            inner=vision.intermediate_size if gated else int(width * vision.mlp_ratio),
            gated=gated,
            values=vision.in_channels * temporal * vision.patch_size**2,
            merge=vision.spatial_merge_size**2,
        )

    def most_patches(self, tokens: int, pixels: int | None) -> int:
        return min(tokens * MERGE**2, (pixels or RELEASED_MAX_PIXELS) // PATCH**2)


QWEN_VISION = QwenVision()


def multimodal_settings(config: BuildConfig, tokenizer: Any) -> dict[str, Any]:
    """The settings that small models of Qwen2-VL and Qwen2.5-VL share; all but the sizes are as in the released ones."""
    id_of = tokenizer.convert_tokens_to_ids
    head = config.hidden_size // config.heads
    time, height = head // 8, 3 * head // 16  # the released models' shares of the rotary pairs
    text = text_settings(config, tokenizer)
    text["rope_parameters"]["mrope_section"] = [time, height, head // 2 - time - height]
    return {
        "text_config": text,
        "vision_config": {
            "depth": config.vision_layers,
            "num_heads": config.vision_heads,
            "patch_size": PATCH,
        },
        "image_token_id": id_of(IMAGE_PAD),
        "video_token_id": id_of(VIDEO_PAD),
        "vision_start_token_id": id_of(VISION_START),
        "vision_end_token_id": id_of(VISION_END),
        "tie_word_embeddings": True,
    }


def _model_config(config: BuildConfig, tokenizer: Any) -> Any:
    from transformers import Qwen2VLConfig

    settings = multimodal_settings(config, tokenizer)
    settings["vision_config"] |= {
        "embed_dim": config.vision_width,
        "hidden_size": config.hidden_size,
        "mlp_ratio": VISION_MLP_RATIO,
    }
    return Qwen2VLConfig(**settings)


FAMILY = Family(
    vision=QWEN_VISION,
    attention_class="Qwen2VLAttention",
    model_class="Qwen2VLForConditionalGeneration",
    model_config=_model_config,
    mistakes=mistakes,
    build_tokenizer=build_tokenizer,
    end_tokens=(END_OF_TEXT, IM_END),
    unscaled=("patch_embed",),
    box_unit="thousandths",
)
