"""Files that a command writes: nothing is overwritten unless asked for."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlrft.schema.errors import ConfigError


def path_argument(text: str) -> Path:
    """The path that an option names; empty text, as of a variable that is not set, would be the current folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("empty; expected a path")
    return Path(text)


def refuse_existing(path: Path | None, option: str, *, overwrite: bool) -> None:
    """Raises ConfigError where the file that `option` names exists and may not be overwritten, or cannot be written."""
    if path is None:
        return
    try:
        exists = path.exists() or path.is_symlink()
    except OSError as e:
        raise ConfigError([f"{option}: cannot be written ({e.strerror}): {path}"]) from None
    if path.is_dir():
        raise ConfigError([f"{path} is a folder; give a file as {option}"])
    if exists and not overwrite:
        raise ConfigError([f"{path} exists; use --overwrite or another {option}"])
