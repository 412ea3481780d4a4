"""Qwen3.5: three of four decoder layers are recurrent (a gated delta rule), and the tower is Qwen3-VL's without deepstack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vlrft.config import BuildConfig
from vlrft.policy.families import EXPERTS, _qwen3
from vlrft.policy.families._tower_arguments import Tower

# Every so many decoder layers attend; the others are recurrent. In a small model the last layer attends, too.
ATTENDING = 4
ROTARY = 0.25  # share of a head's width that is rotated


class Qwen35Vision(_qwen3.Qwen3Vision):
    tower = Tower(name="Qwen3_5VisionModel", interpolated=True)


def _model_config(config: BuildConfig, tokenizer: Any) -> Any:
    from transformers import Qwen3_5Config

    settings = _qwen3.multimodal_settings(config, tokenizer)
    text = settings["text_config"]
    head = config.hidden_size // config.heads
    pairs = int(head * ROTARY) // 2
    time = -(-pairs // 3)  # as in the released models: 11, 11 and 10 of 32
    height = -(-(pairs - time) // 2)
    text |= {
        "layer_types": _layer_types(config.layers),
        "linear_key_head_dim": head,
        "linear_value_head_dim": head,
        "linear_num_key_heads": config.kv_heads,
        "linear_num_value_heads": config.heads,
    }
    text["rope_parameters"] |= {
        "mrope_section": [time, height, pairs - time - height],
        "partial_rotary_factor": ROTARY,
    }
    return Qwen3_5Config(**settings)


def _layer_types(layers: int) -> list[str]:
    attending = {*range(ATTENDING - 1, layers, ATTENDING), layers - 1}
    return ["full_attention" if k in attending else "linear_attention" for k in range(layers)]


FAMILY = replace(
    _qwen3.SHARED,  # its attention gates its output, too
    vision=Qwen35Vision(),
    model_class="Qwen3_5ForConditionalGeneration",
    model_config=_model_config,
    refused=dict.fromkeys(
        (
            "Qwen3_5MoeForConditionalGeneration",
            "Qwen3_5MoeForCausalLM",
            "Qwen3_5MoeTextModel",
        ),
        EXPERTS,
    ),
    box_unit="thousandths",
)
