"""The files of one checkpoint: its state, its score, its damage, and their way to the disk."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from vlrft.policy.weight_files import read_weights
from vlrft.schema.errors import CheckpointError
from vlrft.schema.file_hashes import MANIFEST, find_damage, read_manifest

STORED = "stored"  # in the state's values: tensors of the state that are in the model's files -> their names there


@dataclass(frozen=True, kw_only=True)
class TrainerState:
    """A run's state apart from its model: tensors by name, and JSON values."""

    tensors: dict[str, torch.Tensor]
    values: dict[str, Any]

    def under(self, prefix: str) -> dict[str, torch.Tensor]:
        """The tensors whose names begin with `prefix/`, by the rest of their names."""
        start = f"{prefix}/"
        return {k.removeprefix(start): v for k, v in self.tensors.items() if k.startswith(start)}


def load_state(path: Path) -> TrainerState:
    """The state of a checkpoint, with the tensors that are in the model's files."""
    values = json.loads((path / "trainer" / "state.json").read_text())
    tensors = load_file(path / "trainer" / "state.safetensors")
    keys: dict[str, str] = values.get(STORED, {})
    weights = read_weights(path, keys.values())
    tensors |= {name: weights[key] for name, key in keys.items()}
    return TrainerState(tensors=tensors, values=values)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns the errors of a disk that cannot be written into a CheckpointError."""
    try:
        yield
    except (OSError, SafetensorError) as e:
        reason = getattr(e, "strerror", None) or e
        raise CheckpointError(f"{path}: cannot be written ({reason})") from e


def step_of(path: Path) -> int:
    return int(path.name.split("_")[1])


def score_of(path: Path) -> float | None:
    try:
        score = json.loads((path / MANIFEST).read_text())["score"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if score is None else float(score)


def damage_of(path: Path) -> str | None:
    """A description of the damage to a checkpoint, None where it is intact."""
    files = read_manifest(path)
    return f"no readable {MANIFEST}" if files is None else find_damage(path, files)


def files_below(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*") if p.is_file())


def sync(root: Path) -> None:
    """Flushes every file and folder below `root` to the disk."""
    for path in files_below(root):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    for folder in [p for p in root.rglob("*") if p.is_dir()] + [root]:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
