"""The choice of the parameters to train: parts frozen by name, LoRA adapters."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from vlrft.config import LoraConfig
from vlrft.policy.families import VisionFamily, vision_family
from vlrft.schema.errors import ConfigError

PEFT_PREFIX = "base_model.model."


def without_adapters(model: Any) -> Any:
    """The transformers model inside a peft model; any other model unchanged."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def freeze(model: nn.Module, names: Sequence[str]) -> None:
    """Stops the training of parts of the model: `vision`, `projector` (the modules that map vision features into the language model),
    `language`, or the parameters whose names match a pattern.

    Raises ConfigError for a name that matches no parameter, and when no parameter is left to train.
    """
    parameters = [(n.removeprefix(PEFT_PREFIX), p) for n, p in model.named_parameters()]
    vision = vision_family(without_adapters(model))
    for name in names:
        frozen = [p for parameter, p in parameters if _matches(parameter, name, vision)]
        if not frozen:
            raise ConfigError(
                [
                    f"policy.freeze: {name!r} matches no parameter; it is vision, projector, language or a pattern "
                    f"such as *.layers.0.*; names look like {parameters[0][0]}"
                ]
            )
        for parameter in frozen:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for _, parameter in parameters):
        raise ConfigError([f"policy.freeze: {list(names)} leaves nothing to train"])


def _matches(parameter: str, name: str, vision: VisionFamily | None) -> bool:
    """Whether a parameter belongs to a part of the model, or matches a pattern."""
    in_vision = vision is not None and vision.is_vision(parameter)
    in_projector = vision is not None and vision.is_projector(parameter)
    parts = {
        "vision": in_vision and not in_projector,
        "projector": in_projector,
        "language": not in_vision,
    }
    return parts[name] if name in parts else fnmatchcase(parameter, name)


def add_lora(model: Any, config: LoraConfig) -> Any:
    """The model with new adapters, the only parameters that are trained. Raises ConfigError for modules it does not have, and for
    weights that are tied to others."""
    try:
        from peft import LoraConfig as PeftConfig
        from peft import get_peft_model
    except ImportError:
        raise ConfigError(["policy.lora needs peft: pip install 'vlrft[peft]'"]) from None
    targets = config.target_modules
    settings = PeftConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=targets if isinstance(targets, str) else list(targets),
        task_type="CAUSAL_LM",
    )
    try:
        with warnings.catch_warnings():  # peft uses a name that transformers has deprecated
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            adapted = get_peft_model(model, settings)
    except (ValueError, re.error) as e:  # no such modules; not a regular expression
        reason = str(e).splitlines()[0]
        raise ConfigError([f"policy.lora.target_modules: {targets!r}: {reason}"]) from None
    refuse_tied(adapted, "policy.lora.target_modules")
    name_base(adapted)
    return adapted


def refuse_tied(model: Any, where: str) -> None:
    """Raises ConfigError, with `where` in front, for a peft model with adapters of a weight that another module has, too: an
    embedding that is also the head. They adapt one of the two, and merged into the weight they would change both."""
    base = model.get_base_model()
    holders: dict[int, list[str]] = {}
    for name, module in base.named_modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                layer = name.removesuffix(".base_layer")
                holders.setdefault(id(parameter), []).append(layer)
    for name, module in base.named_modules():
        if not hasattr(module, "lora_A"):
            continue
        others = [n for n in holders[id(module.get_base_layer().weight)] if n != name]
        if others:
            raise ConfigError(
                [
                    f"{where}: the weight of {name} is also that of {others[0]}, and adapters of the one cannot be merged "
                    "without changing the other; leave it out"
                ]
            )


def name_base(model: Any) -> None:
    """Makes the settings of the adapters name the model that they change: its folder, or its hub id and commit."""
    settings, config = model.peft_config["default"], model.get_base_model().config
    source = config.name_or_path or None
    if source is not None and os.path.isdir(source):
        source = os.path.abspath(source)
    settings.base_model_name_or_path = source
    settings.revision = getattr(config, "_commit_hash", None)
