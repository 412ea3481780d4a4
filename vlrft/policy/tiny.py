"""Small real policies made from a config and a seed: transformers' classes and a tokenizer trained on the task's text.

Sizes follow `BuildConfig`; everything else is as in the family's released models (`policy/families`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from vlrft.config import BuildConfig
from vlrft.policy.families import all_families
from vlrft.schema.errors import ConfigError


def build_tokenizer(config: BuildConfig, corpus: Iterable[str]) -> Any:
    """The family's tokenizer, of at most `config.vocab_size` tokens, trained on `corpus`.

    Raises ConfigError for sizes that do not fit the family.
    """
    _check_sizes(config)
    return all_families()[config.family].build_tokenizer(corpus, config.vocab_size)


def build_model(config: BuildConfig, tokenizer: Any, seed: int, attention: Any) -> nn.Module:
    """A model with random weights in float32; the global generators are left as they were.

    Raises ConfigError for sizes that do not fit the family.
    """
    _check_sizes(config)
    family = all_families()[config.family]
    import transformers

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        make = getattr(transformers, family.model_class)
        settings = family.model_config(config, tokenizer)
        model = make._from_config(settings, attn_implementation=attention)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and not any(part in name for part in family.unscaled):
                parameter.mul_(config.init_scale)
    end, turn = tokenizer.convert_tokens_to_ids(list(family.end_tokens))
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=end, pad_token_id=end, eos_token_id=[turn, end]
    )
    assert isinstance(model, nn.Module)
    return model


def _check_sizes(config: BuildConfig) -> None:
    if mistakes := all_families()[config.family].mistakes(config):
        raise ConfigError([f"policy.build.{mistake}" for mistake in mistakes])
