"""The released configs of Qwen3-VL, Qwen3.5 and of GLM's vision models, as far as shapes and plans need them.

Found on 2026-11-22 in public repositories, as the hub cannot be reached; *assumed* values were in none that was read:

Qwen3-VL-2B      its config.json on the hub, quoted value by value in plans of a port (text 2048 wide, 28 layers, 16 and 8 heads
                 of 128; tower 1024 wide, 24 layers, 4096; deepstack [5, 11, 17]); assumed: the decoder's inner width, Qwen3-1.7B's
Qwen3-VL-4B      InternLM/xtuner, xtuner/v1/model/compose/qwen3_vl.py, and a config of the decoder in another repository
Qwen3-VL-8B      the same file for the tower; assumed: the decoder's sizes, Qwen3-8B's
GLM-4.1V-9B      huggingface/transformers, defaults of Glm4vConfig, whose checkpoint is zai-org/GLM-4.1V-9B-Thinking
GLM-4.6V-Flash   assumed: the same sizes, with another image processor

Qwen3.5-9B       its model card as quoted on public pages (4096 wide, 32 layers, 8 of them attending; 32 and 16 linear heads of 128, 16
                 and 4 heads of 256, inner width 12288, 248320 tokens), which are transformers' defaults; assumed: the tower, the 27B's
Qwen3.5-27B      its config.json as two public repositories have it in their tests (text and tower)

Numbers of parameters of Qwen3.5 were not found. Assumed for Qwen3-VL and Qwen3.5: the image processor's bounds and means. Equal numbers of parameters support the shapes, and say nothing of
rotary positions or the processor. Numbers of parameters are those of the hub's listings as quoted in public repositories; that of GLM-4.1V-9B was not found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.real_size.released_model import Released

QWEN3_IDS = {
    "image_token_id": 151655,
    "video_token_id": 151656,
    "vision_start_token_id": 151652,
    "vision_end_token_id": 151653,
}
QWEN3_TEXT: dict[str, Any] = {
    "model_type": "qwen3_vl_text",
    "vocab_size": 151936,
    "head_dim": 128,
    "num_key_value_heads": 8,
    "max_position_embeddings": 262144,
    "rope_theta": 5000000,
    "rope_scaling": {
        "rope_type": "default",
        "mrope_interleaved": True,
        "mrope_section": [24, 20, 20],
    },
}
SMALL_TOWER = {
    "depth": 24,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "deepstack_visual_indexes": [5, 11, 17],
}
LARGE_TOWER = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "deepstack_visual_indexes": [8, 16, 24],
}
QWEN3_PROCESSOR = {
    "size": {"shortest_edge": 65536, "longest_edge": 16777216},
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "image_processor_type": "Qwen2VLImageProcessorFast",
}
GENERATION = {"bos_token_id": 151643, "pad_token_id": 151643, "eos_token_id": [151645, 151643]}
GLM_PROCESSOR = {
    "size": {"shortest_edge": 12544, "longest_edge": 9633792},
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
}


def _qwen3_vl(
    name: str,
    parameters: int,
    tower: Mapping[str, Any],
    *,
    tied: bool,
    **text: int,
) -> Released:
    return Released(
        name=name,
        config={
            "architectures": ["Qwen3VLForConditionalGeneration"],
            "model_type": "qwen3_vl",
            "tie_word_embeddings": tied,
            "text_config": {**QWEN3_TEXT, **text},
            "vision_config": {
                **tower,
                "model_type": "qwen3_vl",
                "out_hidden_size": text["hidden_size"],
            },
            **QWEN3_IDS,
        },
        generation=GENERATION,
        processor="Qwen3VLProcessor",
        image_processor=QWEN3_PROCESSOR,
        parameters=parameters,
    )


def _glm(name: str, parameters: int | None, processor: str, image_processor: str) -> Released:
    return Released(
        name=name,
        config={
            "architectures": ["Glm4vForConditionalGeneration"],
            "model_type": "glm4v",
            "image_token_id": 151363,
            "video_token_id": 151364,
            "tie_word_embeddings": False,
            "text_config": {
                "model_type": "glm4v_text",
                "vocab_size": 151552,
                "hidden_size": 4096,
                "intermediate_size": 13696,
                "num_hidden_layers": 40,
                "num_attention_heads": 32,
                "num_key_value_heads": 2,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10000.0,
                    "partial_rotary_factor": 0.5,
                    "mrope_section": [8, 12, 12],
                },
            },
            "vision_config": {
                "model_type": "glm4v",
                "depth": 24,
                "hidden_size": 1536,
                "num_heads": 12,
                "intermediate_size": 13696,
                "out_hidden_size": 4096,
                "image_size": 336,
                "patch_size": 14,
            },
        },
        generation={"pad_token_id": 151329, "eos_token_id": [151329, 151336, 151338]},
        processor=processor,
        image_processor={**GLM_PROCESSOR, "image_processor_type": image_processor},
        parameters=parameters,
        qwen_tokenizer=False,
    )


def _qwen3_5(name: str, **text: int) -> Released:
    return Released(
        name=name,
        config={
            "architectures": ["Qwen3_5ForConditionalGeneration"],
            "model_type": "qwen3_5",
            "tie_word_embeddings": False,
            "text_config": {
                "model_type": "qwen3_5_text",
                "vocab_size": 248320,
                "head_dim": 256,
                "num_key_value_heads": 4,
                "linear_conv_kernel_dim": 4,
                "linear_key_head_dim": 128,
                "linear_value_head_dim": 128,
                "linear_num_key_heads": 16,
                "full_attention_interval": 4,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10000000,
                    "partial_rotary_factor": 0.25,
                    "mrope_interleaved": True,
                    "mrope_section": [11, 11, 10],
                },
                **text,
            },
            "vision_config": {
                "model_type": "qwen3_5_vision",
                "depth": 27,
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "out_hidden_size": text["hidden_size"],
            },
            "image_token_id": 248056,
            "video_token_id": 248057,
            "vision_start_token_id": 248053,
            "vision_end_token_id": 248054,
        },
        generation={"bos_token_id": 248044, "pad_token_id": 248044, "eos_token_id": 248044},
        processor="Qwen3VLProcessor",
        image_processor=QWEN3_PROCESSOR,
        parameters=None,
        qwen_tokenizer=False,
    )


LATER = {
    "qwen3.5-9b": _qwen3_5(
        "Qwen3.5-9B",
        hidden_size=4096,
        intermediate_size=12288,
        num_hidden_layers=32,
        num_attention_heads=16,
        linear_num_value_heads=32,
    ),
    "qwen3.5-27b": _qwen3_5(
        "Qwen3.5-27B",
        hidden_size=5120,
        intermediate_size=17408,
        num_hidden_layers=64,
        num_attention_heads=24,
        linear_num_value_heads=48,
    ),
    "qwen3-2b": _qwen3_vl(
        "Qwen3-VL-2B-Instruct",
        2_127_532_032,
        SMALL_TOWER,
        tied=True,
        hidden_size=2048,
        intermediate_size=6144,
        num_hidden_layers=28,
        num_attention_heads=16,
    ),
    "qwen3-4b": _qwen3_vl(
        "Qwen3-VL-4B-Instruct",
        4_437_815_808,
        SMALL_TOWER,
        tied=True,
        hidden_size=2560,
        intermediate_size=9728,
        num_hidden_layers=36,
        num_attention_heads=32,
    ),
    "qwen3-8b": _qwen3_vl(
        "Qwen3-VL-8B-Instruct",
        8_767_123_696,
        LARGE_TOWER,
        tied=False,
        hidden_size=4096,
        intermediate_size=12288,
        num_hidden_layers=36,
        num_attention_heads=32,
    ),
    "glm-4.1v": _glm("GLM-4.1V-9B-Thinking", None, "Glm4vProcessor", "Glm4vImageProcessor"),
    "glm-4.6v": _glm("GLM-4.6V-Flash", 10_292_777_472, "Glm46VProcessor", "Glm46VImageProcessor"),
}
