"""Models with LoRA adapters that exist already (see `adapter_files`).

base_of        the config with the model that an adapter changes
load_adapter   a model with the adapter, which training continues; add_adapter_shapes: without its weights
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import safe_open

from vlrft.config import PolicyConfig
from vlrft.policy.adapter_files import MERGE, SETTINGS, Adapter, find_file, is_adapter, read_adapter
from vlrft.policy.model_files import reading
from vlrft.policy.trainable import refuse_tied
from vlrft.schema.errors import ConfigError


def base_of(config: PolicyConfig) -> tuple[PolicyConfig, Adapter | None]:
    """The config with the model that its `adapter` changes, and the adapter; the config as it is where it has none.

    Raises ConfigError for a place without an adapter, where neither the config nor the adapter names the model, and for a
    model that is built: an adapter on other weights would train on silently.
    """
    if config.adapter is None:
        model = "" if config.model is None else str(Path(config.model).expanduser())
        if model and is_adapter(model, local=True):
            raise ConfigError(
                [
                    f"policy.model={config.model}: a LoRA adapter; policy.adapter={config.model} trains it further, and "
                    f"vlrft export {config.model} --out DIR merges it into its model"
                ]
            )
        return config, None
    if config.build is not None:
        raise ConfigError(
            [
                "policy.adapter: belongs to the weights that it was trained on, and policy.build makes new ones; set "
                "policy.build=null, and policy.model where the adapter names no model"
            ]
        )
    source = str(Path(config.adapter).expanduser())
    adapter = read_adapter(source)
    if config.quantization is None:
        config = replace(config, quantization=adapter.quantization)
    if config.model is not None:
        return config, replace(adapter, revision=None)
    if adapter.base is None:
        merged = Path(source).parent
        hint = f"; merged with it: {merged}" if (merged / "config.json").is_file() else ""
        raise ConfigError(
            [
                f"policy.adapter={config.adapter}: its {SETTINGS} names no model; set policy.model to the one that it was "
                f"trained on{hint}"
            ]
        )
    return replace(config, model=adapter.base), adapter


def load_adapter(model: Any, adapter: Adapter) -> Any:
    """The model with the adapter's weights, the only parameters that are trained. Changes `model`.

    Raises ConfigError where a weight has no place in the model, or the model has adapted modules without a weight; and for
    adapters of a weight that is tied to another.
    """
    from peft import PeftModel

    with reading_adapter(adapter), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        adapted = PeftModel.from_pretrained(model, adapter.source, is_trainable=True)
        with safe_open(adapter.weights, "pt") as file:
            stored = len(file.keys())
    placed = sum(".lora_" in name for name, _ in adapted.named_parameters())
    lost = [str(w.message) for w in caught if "missing adapter keys" in str(w.message)]
    if lost or placed != stored:
        raise ConfigError(
            [
                f"policy.adapter={adapter.source}: {stored} weights for {placed} places in this model; it belongs to "
                f"{adapter.base or 'another model'}"
            ]
        )
    refuse_tied(adapted, f"policy.adapter={adapter.source}")
    _refuse_other_base(adapted, adapter)
    return adapted


def _refuse_other_base(model: Any, adapter: Adapter) -> None:
    """Raises ConfigError where the model has other weights than the one that vlrft trained the adapter on, such as a folder that
    was written again since."""
    import torch

    from vlrft.policy.merging import base_digest

    path = find_file(adapter.source, MERGE)
    merge = {} if path is None else json.loads(path.read_text())
    if "base" not in merge:
        return
    digest = base_digest(model, getattr(torch, merge["dtype"]))
    if digest not in (None, merge["base"]):
        raise ConfigError(
            [
                f"policy.adapter={adapter.source}: it was trained on other weights than those of {adapter.base or 'this model'}, "
                f"which have changed since; give its own model as policy.model, or delete its {MERGE} to use it all the same"
            ]
        )


def add_adapter_shapes(model: Any, adapter: Adapter) -> Any:
    """The model with adapters of the same shapes, whose weights are not read. Changes `model`."""
    from peft import PeftConfig, get_peft_model

    with reading_adapter(adapter):
        settings = PeftConfig.from_pretrained(adapter.source)
        settings.inference_mode = False
        return get_peft_model(model, settings)


def reading_adapter(adapter: Adapter) -> Any:
    """Turns exceptions of peft into a ConfigError that names the adapter; one of another model has other shapes."""
    return reading(adapter.source, "cannot be applied to this model", key="policy.adapter")
