"""The configs that come with vlrft, by name: `geoqa_gpg` is `configs/geoqa_gpg.yaml` wherever the package lies."""

from __future__ import annotations

from pathlib import Path

import vlrft


def shipped_configs() -> dict[str, Path]:
    """Name -> file, sorted."""
    found = (p for place in vlrft.__path__ for p in (Path(place) / "configs").glob("*.yaml"))
    return {p.stem: p for p in sorted(found)}


def find_config(name: str | Path) -> Path:
    """The file of that name, else the shipped config; a name that is neither is returned as it is."""
    path = Path(name)
    if path.suffix or path.exists() or len(path.parts) > 1:
        return path
    return shipped_configs().get(str(name), path)
