"""The adapter of a checkpoint: exact, where its merged weights are rounded to the model's dtype."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

from vlrft.config import PolicyConfig
from vlrft.config.policy import Dtype
from vlrft.policy.adapter_files import FOLDER, MERGE, SETTINGS, find_file, is_adapter, read_adapter
from vlrft.policy.adapters import base_of
from vlrft.policy.model_files import refuse_damage, refuse_misspelled
from vlrft.schema.file_hashes import read_manifest

NEARLY_ALL = 0.999  # of the adapters' update: a smaller share is reported


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
        kept = _kept_share(Path(source))
        if kept >= NEARLY_ALL:
            return config, ""
        return config, (
            f"model: the merged weights of {source}, which hold {100 * kept:.1f} % of its adapters' update; the model that they "
            "belong to was built and is not stored"
        )
    if find_file(adapter.base, "config.json", adapter.revision) is None:
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
    kept = _kept_share(checkpoint)
    if kept >= NEARLY_ALL:
        return ""
    dtype = json.loads((checkpoint / FOLDER / MERGE).read_text())["dtype"]
    return (
        f"{checkpoint}: its merged {dtype} weights hold {100 * kept:.1f} % of the adapters' update; "
        f"{FOLDER}/ is exact, and vlrft export --dtype float32 merges all of it"
    )


def _kept_share(checkpoint: Path) -> float:
    """The share of the adapters' update that a checkpoint's merged weights hold; 1.0 without adapters."""
    path = checkpoint / FOLDER / MERGE
    return float(json.loads(path.read_text())["kept"]) if path.is_file() else 1.0
