"""The attention implementation of each part of a model, as transformers takes it, from `policy.attention`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vlrft.config import PolicyConfig
from vlrft.policy.families import all_families
from vlrft.schema.errors import ConfigError

FLASH, FLEX = "flash_attention_2", "flex_attention"
BY_PART = {  # for implementations that do not serve every part of a model
    FLASH: {"": "sdpa", "text_config": "sdpa", "vision_config": FLASH},
    FLEX: {"": FLEX},  # of text models alone
}


def attention_of_parts(config: PolicyConfig, device: str) -> Any:
    """The attention of each part of the model: FlashAttention takes no block mask, so the packed decoder uses sdpa.

    Raises ConfigError for one that cannot be used on the device, in this model, or with the packages that are installed.
    """
    if device == "cpu" and config.attention in BY_PART:
        raise ConfigError([f"policy.attention: {config.attention} cannot train on a CPU; use sdpa"])
    text_only = config.build is not None and all_families()[config.build.family].vision is None
    if config.attention == FLASH and text_only:
        raise ConfigError(
            [
                "policy.attention: flash_attention_2 is used in a vision model, and this model has none; use sdpa"
            ]
        )
    if config.attention == FLASH and not _has_flash_attention():
        raise ConfigError(
            [
                "policy.attention: flash_attention_2 needs the package flash-attn, which is not installed or does not work here; "
                "pip install flash-attn, or use sdpa"
            ]
        )
    return BY_PART.get(config.attention, config.attention)


@contextmanager
def refusing_flex() -> Iterator[None]:
    """A context that makes a model. Raises ConfigError for one for which transformers has no flex_attention."""
    try:
        yield
    except ValueError as e:
        if f"does not support an attention implementation through torch's {FLEX}" not in str(e):
            raise
        raise ConfigError(
            [f"policy.attention: transformers has no {FLEX} for this model; use sdpa"]
        ) from None


def _has_flash_attention() -> bool:
    """Whether transformers finds flash-attn, or kernels, from which it loads the same functions."""
    from transformers.utils.import_utils import is_flash_attn_2_available, is_kernels_available

    return bool(is_flash_attn_2_available() or is_kernels_available())
