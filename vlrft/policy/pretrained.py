"""Loads model weights and a tokenizer from a hub id or a folder; each failure is a ConfigError of one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from vlrft.policy.model_files import near_folder, reading
from vlrft.policy.packed_samples import sample_packed
from vlrft.policy.quantization import loading_options, settle
from vlrft.policy.supported import (
    not_supported,
    refuse_changed_logits,
    refuse_quantised,
    refuse_unsupported,
)
from vlrft.schema.errors import ConfigError
from vlrft.vision.processor import prepare_torchvision


def load_model(
    source: str,
    *,
    dtype: torch.dtype,
    attention: Any,
    trust_remote_code: bool = False,
    revision: str | None = None,
    packed_on: str | None = None,
) -> Any:
    """A causal language model, multimodal or text-only, from safetensors (pickled weights are refused). `packed_on`: the
    device on which the decoder's weights are held in 4 bits; None: the model is on the CPU, and none of them are.

    Raises ConfigError for a missing path, a folder without weights, and a model that is not supported.
    """
    prepare_torchvision()
    import transformers

    _check_folder(source)
    with reading(source):
        config = transformers.AutoConfig.from_pretrained(
            source, trust_remote_code=trust_remote_code, revision=revision
        )
        refuse_quantised(config, source)
        auto = _auto_class(config, trust_remote_code)
        if auto is None:
            raise not_supported(
                source, config, "transformers does not load it as a causal language model"
            )
        multimodal = auto is transformers.AutoModelForImageTextToText
        options: dict[str, Any] = {}
        if packed_on is not None or not trust_remote_code:  # which may not be made on this device
            with torch.device("meta"):
                causal = auto.from_config(config, trust_remote_code=trust_remote_code)
            refuse_unsupported(causal, source, multimodal=multimodal)
            if packed_on is not None:
                options = loading_options(causal, dtype, packed_on)
        model, report = auto.from_pretrained(
            source,
            dtype=dtype,
            attn_implementation=attention,
            trust_remote_code=trust_remote_code,
            revision=revision,
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
    refuse_unsupported(model, source, multimodal=multimodal)
    if packed_on is not None:
        settle(model)
        with reading(source):
            sample_packed(model, source, revision)
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise ConfigError(
            [f"policy.model={source}: {len(missing)} weights are missing, such as {missing[0]}"]
        )
    if not multimodal:  # the families' are those of their heads
        with reading(source):
            refuse_changed_logits(model, source)
    return model


def stored_dtype(
    source: str, *, trust_remote_code: bool = False, revision: str | None = None
) -> torch.dtype | None:
    """The dtype in which a model's weights are stored, as its config names it; None where it names none.

    Raises ConfigError for a missing path and a folder without weights.
    """
    import transformers

    _check_folder(source)
    with reading(source):
        config = transformers.AutoConfig.from_pretrained(
            source, trust_remote_code=trust_remote_code, revision=revision
        )
        return named_dtype(config)


def named_dtype(config: Any) -> torch.dtype | None:
    """The dtype that transformers' config of a model names, its decoder's where it has several parts; None for none."""
    parts = (config, config.get_text_config())
    dtypes = [getattr(part, "dtype", None) for part in parts]
    return next((dtype for dtype in dtypes if isinstance(dtype, torch.dtype)), None)


def _auto_class(config: Any, trust_remote_code: bool) -> Any:
    """The auto class of transformers that loads the model; None for a model that is not a causal language model."""
    import transformers

    remote = (getattr(config, "auto_map", None) or {}) if trust_remote_code else {}
    for name, mapping in (
        ("AutoModelForImageTextToText", transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING),
        ("AutoModelForCausalLM", transformers.MODEL_FOR_CAUSAL_LM_MAPPING),
    ):
        if type(config) in mapping or name in remote:
            return getattr(transformers, name)
    return None


def load_tokenizer(
    source: str, *, trust_remote_code: bool = False, revision: str | None = None
) -> Any:
    """The tokenizer with its chat template. Raises ConfigError when either is missing."""
    from transformers import AutoTokenizer

    with reading(source, "its tokenizer cannot be loaded"):
        tokenizer = AutoTokenizer.from_pretrained(
            source, trust_remote_code=trust_remote_code, revision=revision
        )
    if tokenizer.chat_template is None:
        raise ConfigError(
            [f"policy.model={source}: its tokenizer has no chat template; add chat_template.jinja"]
        )
    return tokenizer


def _check_folder(source: str) -> None:
    folder = Path(source)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            last = folder / "checkpoints" / "last"  # of a run's folder
            hint = f"; did you mean {last}?" if (last / "config.json").is_file() else ""
            raise ConfigError([f"policy.model={source}: no config.json in this folder{hint}"])
        if not any(folder.glob("*.safetensors")):
            raise ConfigError([f"policy.model={source}: no weights (*.safetensors) in this folder"])
    elif (
        source.startswith((".", "/", "~"))
        or source.count("/") > 1
        or folder.exists()
        or near_folder(folder)
    ):
        raise ConfigError([f"policy.model={source}: no such folder{near_folder(folder)}"])
