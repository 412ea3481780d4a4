"""The package as it is installed: its version, and its configs by name.

`geoqa_gpg` is the file `configs/geoqa_gpg.yaml`, wherever the package is installed.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def package_version() -> str:
    """The installed version of vlrft; `0+unknown` in a checkout that is on the path but not installed."""
    try:
        return version("vlrft")
    except PackageNotFoundError:
        return "0+unknown"


def shipped_configs() -> dict[str, Path]:
    """The configs of the package, name -> file, sorted by name."""
    folders = importlib.import_module("vlrft.configs").__path__
    files = (path for folder in folders for path in Path(folder).glob("*.yaml"))
    return {path.stem: path for path in sorted(files)}


def find_config(name: str | Path) -> Path:
    """The path itself where such a file exists, else the shipped config of that name, else the path unchanged."""
    path = Path(name)
    if path.suffix or path.exists() or len(path.parts) > 1:
        return path
    return shipped_configs().get(str(name), path)
