"""Overrides that a command would ignore, which it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vlrft.config.errors import shorten
from vlrft.config.yaml_text import parse_yaml
from vlrft.schema.errors import ConfigError


def refuse_unread(items: Sequence[str], unread: Mapping[str, str], reader: str) -> None:
    """Raises ConfigError for overrides of settings that `reader` does not read. `unread`: the path of a setting or a section
    -> what is given in its place, or "". A whole section is refused for one such key in it."""
    mistakes: list[str] = []
    for item in items:
        for path in _paths(item):
            for unread_path, instead in unread.items():
                if f"{path}.".startswith(f"{unread_path}."):
                    hint = f"; give {instead}" if instead else ""
                    within = "" if _path_of(item) == path else f"{path} "
                    mistakes.append(f"{shorten(item)}: {within}has no effect on {reader}{hint}")
    if mistakes:
        raise ConfigError(mistakes)


def refuse_other_value(items: Sequence[str], path: str, value: Any, option: str) -> None:
    """Raises ConfigError for an override of `path` with another value than an option of the command gives."""
    for item in items:
        if (
            value is not None
            and item.partition("=")[0] == path
            and parse_yaml(item.partition("=")[2]) != value
        ):
            raise ConfigError([f"{shorten(item)}: {option} {value} is given too; give one of them"])


def _paths(item: str) -> Iterator[str]:
    """The paths that an override sets, in a task's config as in that of a run. None of one that is no override."""
    try:
        for path in _inner_paths(item.partition("=")[0], parse_yaml(item.partition("=")[2])):
            yield path.removeprefix("task.")
    except ValueError:  # reported where overrides are applied
        return


def _path_of(item: str) -> str:
    return item.partition("=")[0].removeprefix("task.")


def _inner_paths(path: str, value: Any) -> Iterator[str]:
    if not isinstance(value, dict) or not value:
        yield path
        return
    for key, inner in value.items():
        yield from _inner_paths(f"{path}.{key}", inner)
