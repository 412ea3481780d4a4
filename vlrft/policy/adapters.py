"""LoRA adapters that exist already: folders that peft wrote, the `adapter/` of a checkpoint, adapters of the hub.

read_adapter   the adapter at a place, with the model that it was trained on
base_of        the config with the model that an adapter changes
load_adapter   a model with the adapter, which training continues; add_adapter_shapes: without its weights
exact_policy   the config of a checkpoint's adapter on its base, in place of the checkpoint's merged weights
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from safetensors import safe_open

from vlrft.config import PolicyConfig
from vlrft.config.policy import Dtype, Quantization
from vlrft.policy.model_files import reading, refuse_damage, refuse_misspelled
from vlrft.schema.errors import ConfigError
from vlrft.schema.file_hashes import read_manifest

SETTINGS = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
FOLDER = "adapter"  # in a checkpoint
NEARLY_ALL = 0.999  # of the adapters' update: a smaller share is reported
MERGE = "merge.json"  # in FOLDER: {"dtype": of the merged weights, "kept": the share of the update that they hold,
# "base": see vlrft.policy.merging.base_digest}
HELD = (
    "base.json"  # in FOLDER: how training held the model's weights, {"quantization": …, "dtype": …}
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
    whole = _file(source, "config.json", local=local) is not None
    return not whole and _file(source, SETTINGS, local=local) is not None


def read_adapter(source: str) -> Adapter:
    """The adapter in a folder or a repository of the hub.

    Raises ConfigError for adapters of another kind than LoRA, with whole modules beside the low-rank matrices, or without
    safetensors, and for a place without an adapter.
    """
    path = _file(source, SETTINGS)
    if path is None:
        inside = Path(source) / FOLDER
        hint = f"; the adapter is {inside}" if (inside / SETTINGS).is_file() else ""
        raise ConfigError([f"policy.adapter={source}: no {SETTINGS} here{hint}"])
    settings = _read_settings(path, source)
    weights = _file(source, WEIGHTS)
    if weights is None:
        raise ConfigError(
            [f"policy.adapter={source}: an adapter without {WEIGHTS}; pickled weights are not read"]
        )
    return Adapter(
        source=source,
        weights=weights,
        base=settings.get("base_model_name_or_path") or None,
        revision=settings.get("revision") or None,
        has_tokenizer=_file(source, "tokenizer_config.json") is not None,
        **_read_held(source),
    )


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

    Raises ConfigError where a weight has no place in the model, or the model has adapted modules without a weight.
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
    _refuse_other_base(adapted, adapter)
    return adapted


def _refuse_other_base(model: Any, adapter: Adapter) -> None:
    """Raises ConfigError where the model has other weights than the one that vlrft trained the adapter on, such as a folder that
    was written again since."""
    import torch

    from vlrft.policy.merging import base_digest

    path = _file(adapter.source, MERGE)
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


def exact_policy(config: PolicyConfig) -> tuple[PolicyConfig, str]:
    """The config with a checkpoint's adapter on its base, which is exact, in place of the weights that are merged in the
    model's dtype; and a line on what was chosen. The config as it is, and no line, for any other model.

    A run's checkpoint has the dtype of its training where the config leaves it open, so that its answers are the run's own.
    """
    if config.model is None or config.adapter is not None:
        return config, ""
    refuse_misspelled("policy.model", config.model)  # before the hub is asked
    source = str(Path(config.model).expanduser())
    if config.dtype == "auto" and read_manifest(Path(source)) is not None:
        config = replace(config, dtype=_dtype_of(source))
    if is_adapter(source):
        chosen = replace(config, model=None, adapter=source)
        return chosen, f"model: {base_of(chosen)[0].model} with the adapter {source}"
    beside = Path(source) / FOLDER
    if not (beside / SETTINGS).is_file():
        return config, ""
    refuse_damage(source)
    adapter = read_adapter(str(beside))
    if adapter.base is None:  # of a policy that was built
        kept = _kept(Path(source))
        if kept >= NEARLY_ALL:
            return config, ""
        return config, (
            f"model: the merged weights of {source}, which hold {100 * kept:.1f} % of its adapters' update; the model that they "
            "belong to was built and is not stored"
        )
    if _file(adapter.base, "config.json", adapter.revision) is None:
        return config, (
            f"model: the merged weights of {source}; {adapter.base}, the model of its exact adapter, is not here"
        )
    chosen = replace(config, model=None, adapter=str(beside))
    return chosen, f"model: {adapter.base} with the adapter {beside}"


def _dtype_of(checkpoint: str) -> Dtype:
    """The dtype of a checkpoint's weights, which is that of the policy in its run; auto where it cannot be read."""
    try:
        stored = json.loads((Path(checkpoint) / "config.json").read_text(encoding="utf-8"))["dtype"]
    except (OSError, ValueError, KeyError, TypeError):
        return "auto"
    return next((dtype for dtype in get_args(Dtype) if dtype == stored), "auto")


def merge_note(checkpoint: Path) -> str:
    """A line on a checkpoint whose merged weights hold noticeably less than the adapters' update; empty for any other."""
    kept = _kept(checkpoint)
    if kept >= NEARLY_ALL:
        return ""
    dtype = json.loads((checkpoint / FOLDER / MERGE).read_text())["dtype"]
    return (
        f"{checkpoint}: its merged {dtype} weights hold {100 * kept:.1f} % of the adapters' update; "
        f"{FOLDER}/ is exact, and vlrft export --dtype float32 merges all of it"
    )


def _kept(checkpoint: Path) -> float:
    """The share of the adapters' update that a checkpoint's merged weights hold; 1.0 without adapters."""
    path = checkpoint / FOLDER / MERGE
    return float(json.loads(path.read_text())["kept"]) if path.is_file() else 1.0


def _read_settings(path: Path, source: str) -> Mapping[str, Any]:
    try:
        settings: Any = json.loads(path.read_text(encoding="utf-8"))
        kind, whole = settings.get("peft_type"), settings.get("modules_to_save")
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
    content: Mapping[str, Any] = settings
    return content


def _read_held(source: str) -> dict[str, Any]:
    """`quantization` and `dtype` of an adapter that vlrft trained on 4-bit weights; nothing for any other."""
    path = _file(source, HELD)
    if path is None:
        return {}
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        names = get_args(Quantization)
        return {"quantization": names[names.index(held["quantization"])], "dtype": held["dtype"]}
    except (ValueError, KeyError, TypeError) as e:
        raise ConfigError([f"policy.adapter={source}: {HELD} is not as vlrft writes it"]) from e


def _file(
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
