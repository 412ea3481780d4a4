"""Kinds of a part that a config chooses by name, such as rollout engines. A kind is the dataclass of its settings.

    hf                         the file hf.py of the part's folder, which defines `KIND`
    mine                       an entry point of that name, from an installed package
    my_package.engines:Mine    an attribute of a module that can be imported
    ./mine.py:Mine             an attribute of a file

A module is imported when its name is looked up, and one without `KIND` is skipped.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from vlrft.plugins.references import load_attribute
from vlrft.schema.errors import PluginError


class Kinds(Mapping[str, Any]):
    """Name -> kind, over the files of a package and the entry points of a group."""

    def __init__(self, package: str, group: str) -> None:
        self.package = package
        self.group = group

    def __getitem__(self, name: str) -> Any:
        """The kind of that name or reference. Raises KeyError for an unknown name, PluginError for a broken one."""
        if ":" in name:
            return _require_dataclass(name, load_attribute(name))
        kinds: dict[str, Any] = {}
        if name in self._files:
            module = importlib.import_module(f"{self.package}.{name}")
            if hasattr(module, "KIND"):
                kinds[f"{module.__name__}:KIND"] = module.KIND
        for entry in self._entry_points:
            if entry.name == name:
                kinds[entry.value] = _load(entry)
        if len(kinds) > 1:
            raise PluginError(
                f"{name}: found twice, {' and '.join(kinds)}; give one of these references"
            )
        for reference, kind in kinds.items():
            return _require_dataclass(reference, kind)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        modules = {name: importlib.import_module(f"{self.package}.{name}") for name in self._files}
        names = {name for name, module in modules.items() if hasattr(module, "KIND")}
        return iter(sorted(names | {entry.name for entry in self._entry_points}))

    def __len__(self) -> int:
        return len(list(iter(self)))

    @cached_property
    def _files(self) -> frozenset[str]:
        package = importlib.import_module(self.package)
        return frozenset(module.name for module in pkgutil.iter_modules(package.__path__))

    @cached_property
    def _entry_points(self) -> tuple[EntryPoint, ...]:
        return tuple(entry_points(group=self.group))


def _load(entry: EntryPoint) -> object:
    """The object of an entry point. Raises PluginError for whatever its package raises, also a KeyError."""
    try:
        return entry.load()
    except Exception as e:
        raise PluginError(f"{entry.value}: cannot be loaded ({type(e).__name__}: {e})") from e


def _require_dataclass(reference: str, kind: object) -> object:
    """The kind itself. Raises PluginError."""
    if isinstance(kind, type) and is_dataclass(kind):
        return kind
    raise PluginError(
        f"{reference}: found {kind!r}, expected a dataclass of settings (see vlrft.config.strict)"
    )
