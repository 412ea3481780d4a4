"""What of a policy is trained: parts frozen by name, LoRA adapters."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from vlrft.config import LoraConfig
from vlrft.schema.errors import ConfigError

PEFT_PREFIX = "base_model.model."


def freeze(model: nn.Module, names: Sequence[str]) -> None:
    """Stops the training of the parts `vision`, `projector` (what maps vision features into the language model),
    `language`, or of parameters whose names match a pattern.

    Raises ConfigError for a name that matches nothing, and when nothing is left to train.
    """
    parameters = [(n.removeprefix(PEFT_PREFIX), p) for n, p in model.named_parameters()]
    for name in names:
        matches = PARTS.get(name) or _pattern(name)
        found = [parameter for own, parameter in parameters if matches(own)]
        if not found:
            raise ConfigError(
                [
                    f"policy.freeze: {name!r} matches no parameter; it is vision, projector, language or a pattern "
                    f"such as *.layers.0.*; names look like {parameters[0][0]}"
                ]
            )
        for parameter in found:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for _, parameter in parameters):
        raise ConfigError([f"policy.freeze: {list(names)} leaves nothing to train"])


def _is_projector(name: str) -> bool:
    return ".merger." in name and in_tower(name)


def in_tower(name: str) -> bool:
    """Whether a parameter is of the vision tower, what maps its features into the language model included."""
    return "visual." in name


PARTS: dict[str, Callable[[str], bool]] = {
    "vision": lambda name: in_tower(name) and not _is_projector(name),
    "projector": _is_projector,
    "language": lambda name: not in_tower(name),
}


def _pattern(pattern: str) -> Callable[[str], bool]:
    return lambda name: fnmatchcase(name, pattern)


def add_lora(model: Any, config: LoraConfig) -> Any:
    """The model with fresh adapters, which alone are trained. Raises ConfigError for modules it does not have."""
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
        with warnings.catch_warnings():  # peft asks transformers by a name that it has deprecated
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            return get_peft_model(model, settings)
    except ValueError as e:
        reason = str(e).splitlines()[0]
        raise ConfigError([f"policy.lora.target_modules: {targets!r}: {reason}"]) from None


def merged(model: Any) -> Any:
    """A copy of a peft model's base with the adapters added to its weights; the model itself keeps every bit."""
    return copy.deepcopy(model).merge_and_unload()
