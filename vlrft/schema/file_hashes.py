"""The manifest of a checkpoint: the sha256 of each of its files, by which damage is found before anything is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

MANIFEST = "manifest.json"


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_manifest(folder: Path) -> dict[str, str] | None:
    """Name -> sha256 of each file of a checkpoint; None for a folder without a manifest of ours."""
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = dict(content["files"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return files if all(isinstance(value, str) for value in files.values()) else None


def find_damage(
    folder: Path, files: dict[str, str], among: Callable[[str], bool] = lambda name: True
) -> str | None:
    """The first of these files that is missing or has another content, in words; None where all are intact."""
    for name, digest in files.items():
        if not among(name):
            continue
        file = folder / name
        if not file.is_file():
            return f"{name} is missing"
        if sha256_of(file) != digest:
            return f"{name} has changed since it was written"
    return None
