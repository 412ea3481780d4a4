"""Qwen2.5-VL: images as Qwen2-VL takes them, through a tower with windows, gated MLPs and RMS norms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vlrft.config import BuildConfig
from vlrft.policy.families import qwen2_vl
from vlrft.policy.families._qwen_vision import QwenVision
from vlrft.policy.families._tower_arguments import Tower
from vlrft.schema import Pixels


class WindowVision(QwenVision):
    tower = Tower(name="Qwen2_5_VisionTransformerPretrainedModel", windows=True)

    def timing(self, videos: Sequence[Pixels]) -> dict[str, Tensor]:
        """Positions in time are seconds times a number of the config."""
        return {"second_per_grid_ts": torch.tensor([v.video.interval for v in videos if v.video])}


def _model_config(config: BuildConfig, tokenizer: Any) -> Any:
    from transformers import Qwen2_5_VLConfig

    settings = qwen2_vl.multimodal_settings(config, tokenizer)
    settings["vision_config"] |= {
        "hidden_size": config.vision_width,
        "out_hidden_size": config.hidden_size,
        "intermediate_size": qwen2_vl.VISION_MLP_RATIO * config.vision_width,
        "window_size": 112,
        "fullatt_block_indexes": [config.vision_layers - 1],
    }
    return Qwen2_5_VLConfig(**settings)


FAMILY = replace(
    qwen2_vl.FAMILY,
    vision=WindowVision(),
    attention_class="Qwen2_5_VLAttention",
    model_class="Qwen2_5_VLForConditionalGeneration",
    model_config=_model_config,
    box_unit="resized",
)
