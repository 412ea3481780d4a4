"""The kinds of models that can be trained: multimodal ones of a family, and text-only ones; all with full attention."""

from __future__ import annotations

from typing import Any

from vlrft.policy.families import refusal, vision_families, vision_family
from vlrft.schema.errors import ConfigError


def refuse_unsupported(model: Any, source: str, *, multimodal: bool) -> None:
    """Raises ConfigError, with the reason, for a transformers causal model that cannot be trained; its weights are not read.
    `multimodal`: as transformers loads it."""
    config = model.config
    reason = refusal(model)
    if reason is None and multimodal != (vision_family(model) is not None):
        names = f"no family has its class, {type(model).__name__}"
        reason = names if multimodal else "transformers loads it as a text-only model"
    if reason is None and not getattr(model, "_supports_attention_backend", False):
        reason = "its attention function cannot be replaced, as sampling needs it"
    if reason is None and not _attends_fully(config.get_text_config()):
        reason = "some of its layers do not attend to all earlier tokens"
    if reason is not None:
        raise not_supported(source, config, reason)


def not_supported(source: str, config: Any, reason: str) -> ConfigError:
    """The error for a model that cannot be trained. `config`: transformers'."""
    families = ", ".join(vision_families())
    return ConfigError(
        [
            f"policy.model={source}: {config.model_type} is not supported: {reason}; vlrft trains multimodal models of the "
            f"families {families}, and text-only causal language models with full attention"
        ]
    )


def _attends_fully(config: Any) -> bool:
    """Whether every layer attends to all earlier tokens, as the masks of the packed forward assume."""
    kinds = getattr(config, "layer_types", None)
    if kinds is None:  # as in Mistral: one window for all layers
        return getattr(config, "sliding_window", None) is None
    return set(kinds) == {"full_attention"}
