"""Files of an earlier run that a run reads, such as the checkpoint that it starts from: `--overwrite` must not remove them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vlrft.config import Config
from vlrft.config.load import stored_sections
from vlrft.reporting.run_folder.removal import Contents
from vlrft.schema.errors import ConfigError


def refuse_needed_files(config: Config, folder: Path, contents: Contents) -> None:
    """Raises ConfigError where the config reads a file of the run that `overwrite` removes, such as its checkpoint."""
    removed = contents.removable()
    root = folder.resolve()
    mistakes = []
    for key, text in _texts(stored_sections(config), ""):
        path = Path(text)
        if not text or len(text) > 4096 or "\0" in text or not os.path.exists(path):
            continue
        path = path.resolve()
        if path.is_relative_to(root) and path != root:
            name = path.relative_to(root).as_posix()
            if any(file == name or file.startswith(f"{name}/") for file in removed):
                mistakes.append(
                    f"{key}: {text} is part of the run that --overwrite removes; use another --out"
                )
    if mistakes:
        raise ConfigError(mistakes)


def _texts(node: Any, key: str) -> Iterator[tuple[str, str]]:
    """The texts in a tree with their dotted keys."""
    if isinstance(node, dict):
        for name, child in node.items():
            yield from _texts(child, f"{key}.{name}" if key else str(name))
    elif isinstance(node, list):
        for k, child in enumerate(node):
            yield from _texts(child, f"{key}.{k}")
    elif isinstance(node, str):
        yield key, node
