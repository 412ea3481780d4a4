"""Qwen2-VL, and what small models of the families after it share with it."""

from __future__ import annotations

from typing import Any

from vlrft.config import BuildConfig
from vlrft.policy.families import Family
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
from vlrft.policy.families._qwen_vision import QwenVision

VISION_MLP_RATIO = 2

QWEN_VISION = QwenVision()


def multimodal_settings(config: BuildConfig, tokenizer: Any) -> dict[str, Any]:
    """The settings that small models of Qwen2-VL and the families after it share; all but the sizes are as in the released ones."""
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
            "patch_size": QWEN_VISION.patch,
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
