"""The files of a LoRA adapter: a folder that peft wrote, the `adapter/` of a checkpoint, or a repository of the hub."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from vlrft.config.policy import Quantization
from vlrft.schema.errors import ConfigError

SETTINGS = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
FOLDER = "adapter"  # in a checkpoint
MERGE = "merge.json"  # in FOLDER: {"dtype": of the merged weights, "kept": the share of the update that they hold,
# "base": see vlrft.policy.merging.base_digest}
HELD = (
    "base.json"  # in FOLDER: how training held the model's weights, {"quantization": …, "dtype": …}
)
# Settings with which peft's LoRA is more than low-rank matrices that are added to weights: their merge would not be exact.
BEYOND_LORA = (
    *("use_dora", "lora_bias", "use_qalora", "alora_invocation_tokens", "layer_replication"),
    *("trainable_token_indices", "target_parameters", "arrow_config"),
)


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """A LoRA adapter. `source`: its folder or hub id. `base`: the folder or hub id of the model that it changes, at
    `revision`; None where its settings do not say. `quantization`: how training held that model's weights; `dtype`: the
    dtype in which they were quantised, None where they were not."""

    source: str
    weights: Path
    base: str | None
    revision: str | None
    has_tokenizer: bool
    quantization: Quantization = "none"
    dtype: str | None = None


def is_adapter(source: str, *, local: bool = False) -> bool:
    """Whether a folder or a repository of the hub holds an adapter and no whole model. `local`: the hub is not asked, only its
    cache."""
    whole = find_file(source, "config.json", local=local) is not None
    return not whole and find_file(source, SETTINGS, local=local) is not None


def read_adapter(source: str) -> Adapter:
    """The adapter in a folder or a repository of the hub.

    Raises ConfigError for adapters of another kind than LoRA, with whole modules or anything else beside the low-rank matrices, or
    without safetensors, and for a place without an adapter.
    """
    path = find_file(source, SETTINGS)
    if path is None:
        inside = Path(source) / FOLDER
        hint = f"; the adapter is {inside}" if (inside / SETTINGS).is_file() else ""
        raise ConfigError([f"policy.adapter={source}: no {SETTINGS} here{hint}"])
    settings = _read_settings(path, source)
    weights = find_file(source, WEIGHTS)
    if weights is None:
        raise ConfigError(
            [f"policy.adapter={source}: an adapter without {WEIGHTS}; pickled weights are not read"]
        )
    return Adapter(
        source=source,
        weights=weights,
        base=settings.get("base_model_name_or_path") or None,
        revision=settings.get("revision") or None,
        has_tokenizer=find_file(source, "tokenizer_config.json") is not None,
        **_read_held(source),
    )


def _read_settings(path: Path, source: str) -> Mapping[str, Any]:
    try:
        settings: Any = json.loads(path.read_text(encoding="utf-8"))
        kind, whole = settings.get("peft_type"), settings.get("modules_to_save")
        beyond = [name for name in BEYOND_LORA if settings.get(name)]
    except (ValueError, RecursionError, AttributeError) as e:
        raise ConfigError([f"policy.adapter={source}: {SETTINGS} is not as peft writes it"]) from e
    if kind != "LORA":
        raise ConfigError(
            [f"policy.adapter={source}: an adapter of the kind {kind}; vlrft reads LORA"]
        )
    if whole:
        raise ConfigError(
            [
                f"policy.adapter={source}: an adapter that also replaces the modules {', '.join(map(str, whole))}; merge it into its model "
                "with peft, and give the merged folder as policy.model"
            ]
        )
    if beyond:
        raise ConfigError(
            [
                f"policy.adapter={source}: an adapter with {', '.join(beyond)}, which is more than low-rank matrices; merge it into "
                "its model with peft, and give the merged folder as policy.model"
            ]
        )
    content: Mapping[str, Any] = settings
    return content


def _read_held(source: str) -> dict[str, Any]:
    """`quantization` and `dtype` of an adapter that vlrft trained on 4-bit weights; nothing for any other."""
    path = find_file(source, HELD)
    if path is None:
        return {}
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        names = get_args(Quantization)
        return {"quantization": names[names.index(held["quantization"])], "dtype": held["dtype"]}
    except (ValueError, KeyError, TypeError) as e:
        raise ConfigError([f"policy.adapter={source}: {HELD} is not as vlrft writes it"]) from e


def find_file(
    source: str, name: str, revision: str | None = None, *, local: bool = False
) -> Path | None:
    """The path of a file of a folder or of a repository of the hub; None where there is none."""
    folder = Path(source)
    if folder.is_dir():
        return folder / name if (folder / name).is_file() else None
    if source.startswith((".", "/", "~")) or source.count("/") != 1:
        return None
    from transformers.utils.hub import cached_file

    found = cached_file(
        source,
        name,
        revision=revision,
        local_files_only=local,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if found is None else Path(found)
