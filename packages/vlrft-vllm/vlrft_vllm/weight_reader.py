"""Reads weights from a safetensors file, or from all such files of a folder. Imports no vLLM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

Weights = Iterator[tuple[str, torch.Tensor]]


@contextmanager
def open_weights(path: str) -> Iterator[Weights]:
    """A context with the weights by name, which are read while they are iterated. All files are opened at its start.

    Raises ValueError for a file that is missing, cut short or no safetensors, and for a folder without such files.
    """
    place = Path(path)
    paths = sorted(place.glob("*.safetensors")) if place.is_dir() else [place]
    if not paths:
        raise ValueError(f"{path}: a folder without safetensors files")
    with ExitStack() as stack:
        yield _read([stack.enter_context(_open(file)) for file in paths])


def _open(path: Path) -> Any:
    try:
        return safe_open(path, "pt")
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: not a readable safetensors file: {error}") from error


def _read(files: list[Any]) -> Weights:
    for file in files:
        for name in file.keys():  # noqa: SIM118 - not a mapping
            yield name, file.get_tensor(name)
