"""Files that a command writes: nothing is overwritten unless asked for."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlrft.schema.errors import ConfigError


def path_argument(text: str) -> Path:
    """The path that an option names, refused where its text is empty, as of a variable that is not set: it would be the
    current folder; or where its bytes are not UTF-8."""
    if not text.strip():
        raise argparse.ArgumentTypeError("empty; expected a path")
    if not text.isascii() and text != text.encode(errors="replace").decode():
        raise argparse.ArgumentTypeError(
            "not UTF-8; configs and reports could not name such a path"
        )
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
