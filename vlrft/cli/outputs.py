"""Files that a command writes: nothing is overwritten unless asked for."""

from __future__ import annotations

from pathlib import Path

from vlrft.schema.errors import ConfigError


def refuse_existing(path: Path | None, option: str, *, overwrite: bool) -> None:
    """Raises ConfigError when the file that `option` names exists and may not be overwritten."""
    if path is not None and path.exists() and not overwrite:
        raise ConfigError([f"{path} exists; use --overwrite or another {option}"])
