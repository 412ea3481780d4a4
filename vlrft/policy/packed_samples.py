"""A few numbers of each 4-bit weight as it was in the model's files, by which a base that has changed since is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import safe_open

from vlrft.policy.adapter_files import find_file
from vlrft.policy.merging import stored_names
from vlrft.policy.quantization import is_packed, sample_numbers

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def sample_packed(model: Any, source: str, revision: str | None) -> None:
    """Notes in the state of each packed weight some of the numbers that it was made of; nothing for a weight of which the files
    have none of its names, as where transformers computes it from several stored ones."""
    places = weight_files(source, revision)
    hub = stored_names(model)
    for name, weight in model.named_parameters():
        if not is_packed(weight):
            continue
        key = next((key for key in (hub.get(name, name), name) if key in places), None)
        if key is not None:
            # maps the file: only the pages of these numbers are read
            with safe_open(places[key], "pt") as file:
                numbers = sample_numbers(file.get_tensor(key))
            assert numbers is not None
            weight.quant_state.sampled = numbers.to(weight.quant_state.dtype, copy=True)


def weight_files(source: str, revision: str | None) -> dict[str, Path]:
    """The file of each tensor of a model in a folder or a repository of the hub, by its name there."""
    index = find_file(source, INDEX, revision)
    whole = find_file(source, WEIGHTS, revision)
    if whole is None and index is not None:
        names: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        paths = {name: find_file(source, name, revision) for name in set(names.values())}
        return {key: path for key, name in names.items() if (path := paths[name]) is not None}
    if whole is None:
        return {}
    with safe_open(whole, "pt") as file:
        return dict.fromkeys(file.keys(), whole)
