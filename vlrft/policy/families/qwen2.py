"""Qwen2 and Qwen2.5: text only."""

from __future__ import annotations

from typing import Any

from vlrft.config import BuildConfig
from vlrft.policy.families import Family
from vlrft.policy.families._qwen import (
    END_OF_TEXT,
    IM_END,
    build_tokenizer,
    text_mistakes,
    text_settings,
)


def _model_config(config: BuildConfig, tokenizer: Any) -> Any:
    from transformers import Qwen2Config

    return Qwen2Config(**text_settings(config, tokenizer), tie_word_embeddings=True)


FAMILY = Family(
    vision=None,
    attention_class="Qwen2Attention",
    model_class="Qwen2ForCausalLM",
    model_config=_model_config,
    mistakes=text_mistakes,
    build_tokenizer=build_tokenizer,
    end_tokens=(END_OF_TEXT, IM_END),
)
