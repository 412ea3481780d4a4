"""A run's policy as a plain transformers folder: the files of a checkpoint, or an adapter merged into its base."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlrft.config import PolicyConfig
from vlrft.policy.adapter_files import FOLDER, MERGE, is_adapter, read_adapter
from vlrft.policy.adapters import base_of
from vlrft.policy.checkpoint_adapter import exact_policy
from vlrft.policy.model_files import refuse_damage
from vlrft.reporting.run_folder.mark import is_run
from vlrft.reporting.run_folder.names import CHECKPOINTS, LAST
from vlrft.schema.errors import ConfigError
from vlrft.schema.file_hashes import MANIFEST

DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class Source:
    """The model to export: `model`, a checkpoint's folder, or an adapter's folder or hub id, and the run that wrote it."""

    model: str
    run: Path | None


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The written model. `kept`: the share of an adapter's update that its weights hold; None: there was no adapter.
    `quantization`: how training held the base; the written weights are the numbers that it computed with."""

    dtype: str
    multimodal: bool
    base: str | None
    kept: float | None
    quantization: str = "none"


def find_source(text: str, checkpoint: str | None = None) -> Source:
    """A run's folder (of which `checkpoint` is taken; None: the last), a checkpoint, or an adapter. Raises ConfigError for
    anything else."""
    path = Path(text).expanduser()
    if path.is_dir() and not (path / "config.json").is_file() and is_run(path):
        checkpoint = checkpoint or LAST
        model = path / CHECKPOINTS / checkpoint
        if not (model / "config.json").is_file():
            here = sorted(p.parent.name for p in path.glob(f"{CHECKPOINTS}/*/config.json"))
            raise ConfigError(
                [f"{path}: no checkpoint {checkpoint}; it has {', '.join(here) or 'none yet'}"]
            )
        return Source(model=str(model.resolve() if model.is_symlink() else model), run=path)
    model = path.resolve() if path.is_symlink() else path
    whole = (model / "config.json").is_file()
    if whole or is_adapter(str(model) if model.is_dir() else text):
        if checkpoint is not None:
            raise ConfigError(
                [f"--checkpoint {checkpoint}: {text} is one already; give the run's folder"]
            )
        owner = next((p for p in model.absolute().parents[:3] if p.is_dir() and is_run(p)), None)
        return Source(model=str(model) if model.is_dir() else text, run=owner)
    raise ConfigError(
        [f"{text}: no run, no checkpoint and no LoRA adapter; give one, such as runs/mine"]
    )


def export_model(source: Source, out: Path, *, dtype: str | None, base: str | None) -> Exported:
    """Writes the model into an empty folder. The files of a whole checkpoint are copied; an adapter is merged into its base,
    or into `base`; with `dtype` the weights are cast, and a checkpoint's adapter is merged again, in that dtype.

    Raises ConfigError for a damaged checkpoint and for an adapter without its base.
    """
    refuse_damage(source.model)
    whole = (Path(source.model) / "config.json").is_file()
    if whole and dtype is None and base is None:
        return _copy(Path(source.model), out)
    if whole and base is not None and not (Path(source.model) / FOLDER).is_dir():
        raise ConfigError(
            [f"--base {base}: {source.model} has no adapter that could be merged into it"]
        )
    if whole and base is not None:
        asked = PolicyConfig(model=base, adapter=str(Path(source.model) / FOLDER))
    elif whole:
        asked = exact_policy(PolicyConfig(model=source.model))[0]
    else:
        asked = PolicyConfig(model=base, adapter=source.model)
    return _merge(asked, out, dtype)


def _copy(checkpoint: Path, out: Path) -> Exported:
    """The model's files of a checkpoint, as they are."""
    for file in sorted(checkpoint.iterdir()):
        if file.is_file() and file.name != MANIFEST:
            shutil.copyfile(file, out / file.name)
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    merge = checkpoint / FOLDER / MERGE
    kept = json.loads(merge.read_text())["kept"] if merge.is_file() else None
    named = (checkpoint / FOLDER / "adapter_config.json").is_file()
    adapter = read_adapter(str(checkpoint / FOLDER)) if named else None
    return Exported(
        dtype=str(config.get("dtype") or config.get("torch_dtype") or "float32"),
        multimodal="vision_config" in config,
        base=None if adapter is None else adapter.base,
        kept=kept,
        quantization="none" if adapter is None else adapter.quantization,
    )


def _merge(config: PolicyConfig, out: Path, dtype: str | None) -> Exported:
    """The policy that a config describes, merged and written."""
    import torch

    from vlrft.policy.load import load_policy
    from vlrft.policy.quantization import cast_base

    loaded, adapter = base_of(config)
    stated: Any = dtype or stored_dtype(str(loaded.model))
    # 4-bit weights are quantised as in training, from numbers of the same dtype.
    held: Any = stated if adapter is None or adapter.dtype is None else adapter.dtype
    policy = load_policy(PolicyConfig(model=config.model, adapter=config.adapter, dtype=held))
    cast_base(policy.model, getattr(torch, stated))
    kept = policy.save_merged(out)
    return Exported(
        dtype=stated,
        multimodal=policy.backbone.multimodal,
        base=loaded.model,
        kept=kept,
        quantization=policy.quantization,
    )


def stored_dtype(model: str) -> str:
    """The dtype of the stored weights of a model; float32 where it is another than vlrft exports."""
    from transformers import AutoConfig

    stored = str(getattr(AutoConfig.from_pretrained(model), "dtype", None)).removeprefix("torch.")
    return stored if stored in DTYPES else "float32"
