"""The folder of the run that a command starts or continues."""

from __future__ import annotations

from pathlib import Path


def run_folder(out: Path | None, config: str) -> Path:
    """The folder that `--out` names, or else that of the config's name below `runs`."""
    return out or Path("runs") / Path(config).stem.replace(":", "_")
