"""Overrides that a command would ignore, which it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vlrft.config.errors import shorten
from vlrft.config.yaml_text import parse_yaml
from vlrft.config.yaml_tree import leaves
from vlrft.schema.errors import ConfigError


def refuse_unread(items: Sequence[str], unread: Mapping[str, str], reader: str) -> None:
    """Raises ConfigError for overrides of settings that `reader` does not read. `unread`: the path of a setting or a section
    -> what is given in its place, or "". A whole section is refused for one such key in it."""
    mistakes: list[str] = []
    for item in items:
        for path in _paths(item):
            for unread_path, instead in unread.items():
                if f"{path}.".removeprefix("task.").startswith(f"{unread_path}."):
                    hint = f"; give {instead}" if instead else ""
                    within = "" if item.startswith(f"{path}=") else f"{path} "
                    mistakes.append(f"{shorten(item)}: {within}has no effect on {reader}{hint}")
    if mistakes:
        raise ConfigError(mistakes)


def _paths(item: str) -> Iterator[str]:
    """The paths that an override sets; none of one that is no override."""
    path, _, text = item.partition("=")
    try:
        yield from (".".join(keys) for keys, _ in leaves(parse_yaml(text), (path,)))
    except ValueError:  # reported where overrides are applied
        return
