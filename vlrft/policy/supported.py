"""The kinds of models that can be trained: multimodal ones of a family, and text-only ones. Their layers
attend to all earlier tokens, or are recurrent (`vlrft.policy.forked`); each token goes through all weights, which are not
quantised in the model's files; and their logits are the output of their head."""

from __future__ import annotations

from typing import Any

import torch

from vlrft.policy.families import EXPERTS, refusal, vision_families, vision_family
from vlrft.policy.forked.layers import (
    attends_by_name,
    attends_fully,
    has_delta_rule,
    has_experts,
    recurrent_layers,
)
from vlrft.schema.errors import ConfigError

LARGE_LOGIT = 50.0  # beyond the soft caps of released models, which are 15 and 30


def refuse_unsupported(model: Any, source: str, *, multimodal: bool) -> None:
    """Raises ConfigError, with the reason, for a transformers causal model that cannot be trained; its weights are not read.
    `multimodal`: as transformers loads it."""
    config = model.config
    reason = refusal(model)
    if reason is None and multimodal != (vision_family(model) is not None):
        names = f"no family has its class, {type(model).__name__}"
        reason = names if multimodal else "transformers loads it as a text-only model"
    text = config.get_text_config()
    if reason is None and has_experts(text):
        reason = EXPERTS
    named = getattr(model, "_supports_attention_backend", False)
    if recurrent_layers(text):
        named = attends_by_name(model.get_decoder())
        if reason is None and not has_delta_rule(text):
            reason = "its recurrent layers are of another kind than gated delta rules, and vlrft cannot fork their states"
    if reason is None and not named:
        reason = "its attention function cannot be replaced, as sampling needs it"
    if reason is None and not attends_fully(text):
        reason = "some of its layers do not attend to all earlier tokens"
    if reason is None and (widths := latent_widths(text)):
        reason = f"its attention has queries of width {widths[0]} and values of width {widths[1]}"
    if reason is not None:
        raise not_supported(source, config, reason)


def refuse_quantised(config: Any, source: str) -> None:
    """Raises ConfigError for a model whose files hold quantised weights, by its transformers config: they are neither trained nor
    written again as they are."""
    settings: Any = getattr(config, "quantization_config", None)
    if settings is None:
        return
    raise ConfigError(
        [
            f"policy.model={source}: its weights are quantised ({settings.get('quant_method')}); set policy.model to the same model in "
            "full precision, whose weights policy.quantization=nf4 holds in 4 bits under adapters"
        ]
    )


def refuse_changed_logits(model: Any, source: str) -> None:
    """Raises ConfigError for a loaded model whose forward changes the output of its head."""
    if changes_logits(model):
        reason = "its logits are the output of its head scaled or capped, and vlrft takes those of the head"
        raise not_supported(source, model.config, reason)


@torch.no_grad()
def changes_logits(causal: Any) -> bool:
    """Whether the forward of a transformers causal model changes the output of its head, as by a factor (Granite, Cohere) or by a
    soft cap (Gemma 2). Its decoder is not run: the forward is handed a hidden state whose largest logit is near LARGE_LOGIT."""
    from transformers.modeling_outputs import MoeModelOutputWithPast

    decoder, head = causal.get_decoder(), causal.get_output_embeddings()
    state = torch.ones(1, 1, head.weight.shape[1], dtype=head.weight.dtype).to(head.weight.device)
    largest = head(state).abs().max().clamp_min(torch.finfo(state.dtype).tiny)
    state = state * (LARGE_LOGIT / largest).clamp_max(LARGE_LOGIT**2)
    before = decoder.__dict__.get("forward")
    decoder.forward = lambda *_, **__: MoeModelOutputWithPast(last_hidden_state=state)
    try:
        ids = torch.zeros(1, 1, dtype=torch.long, device=state.device)
        logits = causal(input_ids=ids, use_cache=False).logits
    finally:
        if before is None:
            del decoder.forward
        else:
            decoder.forward = before
    expected = head(state).float()
    return not torch.allclose(logits.float(), expected, rtol=1e-2, atol=1e-2, equal_nan=True)


def latent_widths(text: Any) -> tuple[int, int] | None:
    """The widths of queries and of values in a decoder with latent attention, where they differ; None elsewhere."""
    parts = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    plain, rotated, value = (getattr(text, name, None) for name in parts)
    if plain is None or rotated is None or value is None or plain + rotated == value:
        return None
    return plain + rotated, value


def not_supported(source: str, config: Any, reason: str) -> ConfigError:
    """The error for a model that cannot be trained. `config`: transformers'."""
    families = ", ".join(vision_families())
    return ConfigError(
        [
            f"policy.model={source}: {config.model_type} is not supported: {reason}; vlrft trains multimodal models of the "
            f"families {families}, and text-only causal language models whose layers have full attention or are recurrent"
        ]
    )
