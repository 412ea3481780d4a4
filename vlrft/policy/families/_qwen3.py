"""Parts that Qwen3-VL and the families after it share: towers with learned positions and larger patches, and timed videos."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from vlrft.config import BuildConfig
from vlrft.memory.shapes import VisionShape
from vlrft.policy.families import qwen2_vl
from vlrft.policy.families._qwen import build_tokenizer
from vlrft.policy.families._qwen_video import TimedVideo
from vlrft.policy.families._qwen_vision import MERGE, QwenVision

# Learned positions of the tower a side; that of a patch is interpolated from four.
POSITIONS = 48
VISION_MLP_RATIO = 4


class Qwen3Vision(TimedVideo, QwenVision):
    patch = 16
    released_max_pixels = 16_777_216

    def deepstack_layers(self, vision: Any) -> int:
        """How many layers of the tower have a merger of their own, beside the last. `vision`: the tower's config."""
        return 0

    def tower_shape(self, model: Any) -> VisionShape:
        """Each merger but the last one reads what a layer of the tower has saved already."""
        vision = model.config.vision_config
        deepstack = self.deepstack_layers(vision)
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


def multimodal_settings(config: BuildConfig, tokenizer: Any) -> dict[str, Any]:
    """The settings that small models share, as `qwen2_vl.multimodal_settings`; rotary positions are interleaved, in sections that
    each family sets."""
    settings = qwen2_vl.multimodal_settings(config, tokenizer)
    settings["text_config"] |= {"head_dim": config.hidden_size // config.heads}
    settings["text_config"]["rope_parameters"] |= {"mrope_interleaved": True}
    settings["vision_config"] |= {
        "hidden_size": config.vision_width,
        "out_hidden_size": config.hidden_size,
        "intermediate_size": VISION_MLP_RATIO * config.vision_width,
        "patch_size": Qwen3Vision.patch,
        "spatial_merge_size": MERGE,
        "num_position_embeddings": POSITIONS**2,
    }
    return settings


SHARED = replace(
    qwen2_vl.FAMILY,
    attention_class=None,  # it norms queries and keys
    build_tokenizer=partial(build_tokenizer, template="qwen3_vl.jinja"),
    unscaled=("patch_embed", "pos_embed"),
)
"""The values of `Family` that they share."""
