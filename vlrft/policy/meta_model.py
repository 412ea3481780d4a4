"""A model made from its config alone, for all that needs its kind or its shapes and none of its weights."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from vlrft.policy.supported import refuse_quantised, refuse_unsupported
from vlrft.schema.errors import ConfigError

HUB_TIMEOUT = 5.0  # seconds


def model_without_weights(source: str, trust_remote_code: bool) -> Any:
    """The transformers causal model of a hub id or a folder, its weights not loaded; on torch's `meta` device it takes no
    memory. Raises ConfigError with one line, also for a model that cannot be trained."""
    import transformers

    config = _model_config(source, trust_remote_code)
    refuse_quantised(config, source)
    for name, configs in (
        ("AutoModelForImageTextToText", transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING),
        ("AutoModelForCausalLM", transformers.MODEL_FOR_CAUSAL_LM_MAPPING),
    ):
        if type(config) in configs:
            model = getattr(transformers, name).from_config(config)
            multimodal = configs is transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
            refuse_unsupported(model, source, multimodal=multimodal)
            return model
    raise ConfigError(
        [f"policy.model={source}: {config.model_type} is not a causal model that vlrft can train"]
    )


def _model_config(source: str, trust_remote_code: bool = False) -> Any:
    """The transformers config of a folder or a hub id, from the hub's cache or, if it answers within seconds, the hub.

    Raises ConfigError with one line.
    """
    from transformers import AutoConfig

    source = str(Path(source).expanduser()) if source.startswith("~") else source
    local = Path(source)
    if local.is_dir() and not (local / "config.json").is_file():
        raise ConfigError([f"policy.model={source}: no config.json in this folder"])
    if not local.is_dir() and (source.startswith((".", "/")) or source.count("/") != 1):
        raise ConfigError([f"policy.model={source}: no such folder"])
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    try:
        return AutoConfig.from_pretrained(source, local_files_only=True, **options)
    except (OSError, ValueError) as e:
        if local.is_dir():
            raise ConfigError([f"policy.model={source}: {str(e).splitlines()[0]}"]) from None
    _refuse_unreachable(source)
    try:
        return AutoConfig.from_pretrained(source, **options)
    except (OSError, ValueError) as e:
        raise ConfigError([f"policy.model={source}: {str(e).splitlines()[0]}"]) from None


def _refuse_unreachable(source: str) -> None:
    """Raises ConfigError unless the hub answers one request; its own client would try six times in half a minute."""
    from huggingface_hub import constants

    reason = "HF_HUB_OFFLINE is set"
    if not constants.is_offline_mode():
        try:
            request = urllib.request.Request(
                f"{constants.ENDPOINT}/api/models/{source}", method="HEAD"
            )
            urllib.request.urlopen(request, timeout=HUB_TIMEOUT).close()
            return
        except urllib.error.HTTPError:
            return  # it answers: its client reports the error
        except OSError as e:
            reason = str(getattr(e, "reason", e))
    raise ConfigError(
        [
            f"policy.model={source}: its config is not in the hub's cache, and the hub cannot be reached ({reason}); "
            "give a folder with its config.json: policy.model=DIR"
        ]
    )
