"""Things that a config chooses by name: an engine, a keep rule, an algorithm, a step of an estimator.

A choice is a name, or a mapping of the name and settings: `greso`, `{name: greso, rate: 0.02}`. Where a chosen thing
is already there, a mapping without a name changes its settings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from vlrft.config.errors import explain
from vlrft.plugins.names import MAX_NAMES, unknown_name
from vlrft.plugins.references import load_attribute
from vlrft.schema.errors import ConfigError, PluginError

T = TypeVar("T")


def choose(
    value: Any,
    table: Mapping[str, type[T]],
    *,
    at: str,
    kind: str = "name",
    default: T | None = None,
) -> T:
    """An instance of the table's dataclass that `value` names: `name`, or `{name: …}` with settings.

    A mapping without a name changes the settings of `default`. `kind`: the word for the thing in messages. Raises
    ConfigError with every mistake under the key `at`.
    """
    if not isinstance(value, str | Mapping):
        raise ConfigError(
            [f"{at}: expected a name ({', '.join(table)}) or {{name: …}}, got {value!r}"]
        )
    settings: dict[str, Any] = {"name": value} if isinstance(value, str) else dict(value)
    name = settings.pop("name", None)
    if name is not None:
        return configure(find_named(str(name), table, at=at, kind=kind), settings, at)
    if not dataclasses.is_dataclass(default):
        raise ConfigError([f"{at}: needs a `name`; known: {', '.join(table)}"])
    return change(default, settings, at)


def find_named(
    name: str, table: Mapping[str, T], *, at: str, kind: str = "name", most: int = MAX_NAMES
) -> T:
    """The table's entry of that name. Raises ConfigError under the key `at`."""
    try:
        return table[name]
    except KeyError:
        raise ConfigError([f"{at}: {unknown_name(kind, name, table, most)}"]) from None
    except PluginError as e:
        raise ConfigError([f"{at}: {e}"]) from None


def find_or_load(
    name: str, table: Mapping[str, object], *, at: str, kind: str, most: int = MAX_NAMES
) -> object:
    """The table's entry of that name, or the attribute that `package.module:attribute` or `./file.py:attribute` names.

    The caller checks its type. Raises ConfigError under the key `at`, which names all entries if they are `most` or fewer.
    """
    if ":" not in name:
        return find_named(name, table, at=at, kind=kind, most=most)
    try:
        return load_attribute(name)
    except PluginError as e:
        raise ConfigError([f"{at}: {e}"]) from None


def configure(kind: type[T], settings: Mapping[str, Any], at: str) -> T:
    """An instance of the dataclass. Raises ConfigError with every mistake under the key `at`."""
    try:
        return TypeAdapter(kind).validate_python(dict(settings))
    except ValidationError as e:
        raise ConfigError(explain(e, kind, at)) from None


def change(part: T, changes: Any, at: str) -> T:
    """The dataclass instance with some of its settings changed. Raises ConfigError with every mistake under `at`."""
    assert dataclasses.is_dataclass(part)
    settings = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    if not isinstance(changes, Mapping):
        raise ConfigError([f"{at}: expected a mapping of {', '.join(settings)}, got {changes!r}"])
    return configure(type(part), settings | dict(changes), at)
