"""A config or an evaluation's settings from what a caller of the API has: a name, a path, a mapping or a Config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vlrft.config import Config
from vlrft.config.load import load_config, resolve_config
from vlrft.config.overrides import override_of
from vlrft.schema.errors import ConfigError

ConfigLike = str | Path | Mapping[str, Any] | Config
"""The name of a shipped config, the path of a YAML file, its content, or a Config."""
Overrides = Mapping[str, Any] | Sequence[str]
"""`{"stages.1.steps": 50}` or `["stages.1.steps=50"]`."""


def read_config(config: ConfigLike, overrides: Overrides = ()) -> Config:
    """The Config, with overrides applied. Raises ConfigError with all mistakes."""
    items = override_texts(overrides)
    if isinstance(config, Config):
        tree = TypeAdapter(Config).dump_python(config, mode="json")
        return config if not items else resolve_config(tree, "config", items)
    if isinstance(config, Mapping):
        return resolve_config(_plain(config, "config"), "config", items)
    return load_config(config, items)


def override_texts(overrides: Overrides) -> list[str]:
    """Overrides as `key=value`. Raises ConfigError for a value that YAML has no form for."""
    if isinstance(overrides, str):
        raise ConfigError([f"overrides: give a list, [{overrides!r}], or a mapping"])
    if not isinstance(overrides, Mapping):
        return list(overrides)
    return [override_of(key, _plain(value, key)) for key, value in overrides.items()]


def _plain(value: Any, at: str) -> Any:
    """The value as YAML would give it: paths as text, tuples as lists. Raises ConfigError for anything else."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(v, f"{at}.{key}") for key, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(v, f"{at}.{k}") for k, v in enumerate(value)]
    kind = type(value).__name__
    raise ConfigError(
        [f"{at}: {kind}; allowed: numbers, texts, paths, lists and mappings of these"]
    )
