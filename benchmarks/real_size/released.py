"""The released configs of Qwen2-VL and Qwen2.5-VL, in the flat form in which the hub has them, and the small files beside their weights.

Written from memory; the parameter counts are the published ones, which `real_size` compares. Those of later models are in `released_later`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.real_size.released_later import LATER
from benchmarks.real_size.released_model import Released

SHARED: dict[str, Any] = {
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "vision_start_token_id": 151652,
    "vision_end_token_id": 151653,
    "vision_token_id": 151654,
    "image_token_id": 151655,
    "video_token_id": 151656,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "sliding_window": 32768,
    "use_sliding_window": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.41.2",
    "use_cache": True,
}
TOWER: dict[str, Any] = {
    "depth": 32,
    "num_heads": 16,
    "in_chans": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "spatial_patch_size": 14,
    "temporal_patch_size": 2,
}
WINDOWED = {
    **TOWER,
    "hidden_act": "silu",
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31],
    "tokens_per_second": 2,
}
SMALL_TEXT = {
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "max_window_layers": 28,
    "num_attention_heads": 12,
    "num_hidden_layers": 28,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "vocab_size": 151936,
}
MIDDLE_TEXT = {
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "max_window_layers": 70,
    "num_attention_heads": 16,
    "num_hidden_layers": 36,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "vocab_size": 151936,
}
LARGE_TEXT = {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "max_window_layers": 28,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "tie_word_embeddings": False,
    "vocab_size": 152064,
}
GENERATION = {
    "bos_token_id": 151643,
    "pad_token_id": 151643,
    "do_sample": True,
    "eos_token_id": [151645, 151643],
    "transformers_version": "4.37.0",
}
PROCESSOR = {
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "image_processor_type": "Qwen2VLImageProcessor",
}


def _qwen2_vl(name: str, text: Mapping[str, Any], parameters: int, whole: bool = False) -> Released:
    tower = {**TOWER, "embed_dim": 1280, "mlp_ratio": 4, "hidden_size": text["hidden_size"]}
    kind = {"architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl"}
    return Released(
        name=name,
        config={**kind, **SHARED, **text, "max_position_embeddings": 32768, "vision_config": tower},
        generation={**GENERATION, "temperature": 0.01, "top_p": 0.001, "top_k": 1},
        processor="Qwen2VLProcessor",
        image_processor=PROCESSOR,
        parameters=parameters,
        whole=whole,
    )


def _qwen2_5_vl(
    name: str, text: Mapping[str, Any], parameters: int, whole: bool = False
) -> Released:
    tower = {**WINDOWED, "out_hidden_size": text["hidden_size"]}
    kind = {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl"}
    return Released(
        name=name,
        config={
            **kind,
            **SHARED,
            **text,
            "max_position_embeddings": 128000,
            "vision_config": tower,
        },
        generation={**GENERATION, "repetition_penalty": 1.05, "temperature": 0.000001},
        processor="Qwen2_5_VLProcessor",
        image_processor=PROCESSOR,
        parameters=parameters,
        whole=whole,
    )


MODELS = {
    "2b": _qwen2_vl("Qwen2-VL-2B-Instruct", SMALL_TEXT, 2_208_985_600, whole=True),
    "3b": _qwen2_5_vl("Qwen2.5-VL-3B-Instruct", MIDDLE_TEXT, 3_754_622_976, whole=True),
    "7b": _qwen2_vl("Qwen2-VL-7B-Instruct", LARGE_TEXT, 8_291_375_616),
    "7b-2.5": _qwen2_5_vl("Qwen2.5-VL-7B-Instruct", LARGE_TEXT, 8_292_166_656),
    **LATER,
}
