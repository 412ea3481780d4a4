"""The kinds of models that can be trained: multimodal ones of a family, and text-only ones. Their layers
attend to all earlier tokens, or are recurrent (`vlrft.policy.forked`)."""

from __future__ import annotations

from typing import Any

from vlrft.policy.families import EXPERTS, refusal, vision_families, vision_family
from vlrft.policy.forked.layers import (
    attends_by_name,
    attends_fully,
    has_delta_rule,
    has_experts,
    recurrent_layers,
)
from vlrft.schema.errors import ConfigError


def refuse_unsupported(model: Any, source: str, *, multimodal: bool) -> None:
    """Raises ConfigError, with the reason, for a transformers causal model that cannot be trained; its weights are not read.
    `multimodal`: as transformers loads it."""
    config = model.config
    reason = refusal(model)
    if reason is None and multimodal != (vision_family(model) is not None):
        names = f"no family has its class, {type(model).__name__}"
        reason = names if multimodal else "transformers loads it as a text-only model"
    text = config.get_text_config()
    named = getattr(model, "_supports_attention_backend", False)
    if recurrent_layers(text):
        named = attends_by_name(model.get_decoder())
        if reason is None and has_experts(text):
            reason = EXPERTS
        if reason is None and not has_delta_rule(text):
            reason = "its recurrent layers are of another kind than gated delta rules, and vlrft cannot fork their states"
    if reason is None and not named:
        reason = "its attention function cannot be replaced, as sampling needs it"
    if reason is None and not attends_fully(text):
        reason = "some of its layers do not attend to all earlier tokens"
    if reason is not None:
        raise not_supported(source, config, reason)


def not_supported(source: str, config: Any, reason: str) -> ConfigError:
    """The error for a model that cannot be trained. `config`: transformers'."""
    families = ", ".join(vision_families())
    return ConfigError(
        [
            f"policy.model={source}: {config.model_type} is not supported: {reason}; vlrft trains multimodal models of the "
            f"families {families}, and text-only causal language models whose layers have full attention or are recurrent"
        ]
    )
