"""Tasks, rewards and methods by name: built in, from another package, by import path, or from a file.

    digits                     a pack under tasks/, a file under rewards/, or an entry point of that name
    my_package.tasks:birds     an attribute of a module that can be imported
    ./mine.py:birds            an attribute of a file

A name that two places offer is an error. Entry points stand in the groups `vlrft.tasks` and `vlrft.rewards`.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import cast

from vlrft.schema import Reward, Task, VlrftError


class PluginError(VlrftError, LookupError):
    """A name that leads nowhere, or to the wrong kind of thing; says what was tried and what there is."""


def find_task(name: str) -> Task:
    """The task of that name. Raises PluginError."""
    found = _find(name, "tasks", "task")
    if not isinstance(found, Task):
        raise PluginError(
            f"task {name}: found a {type(found).__name__}, expected a vlrft.schema.Task"
        )
    return found


def find_reward(name: str) -> Reward:
    """The reward function of that name. Raises PluginError."""
    found = _find(name, "rewards", name)
    if not callable(found):
        raise PluginError(
            f"reward {name}: found a {type(found).__name__}, expected a function (completion, sample)"
        )
    return cast(Reward, found)


def task_names() -> list[str]:
    return _names("tasks")


def reward_names() -> list[str]:
    return _names("rewards")


def load_attribute(reference: str) -> object:
    """What `package.module:attribute` or `./file.py:attribute` names. Raises PluginError."""
    place, _, attribute = reference.rpartition(":")
    if not place or not attribute:
        raise PluginError(f"{reference}: expected package.module:attribute or ./file.py:attribute")
    try:
        module = (
            _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        )
    except ImportError as e:
        raise PluginError(f"{reference}: cannot import {place} ({e})") from e
    if not hasattr(module, attribute):
        near = _near(attribute, vars(module))
        raise PluginError(f"{reference}: {place} has no {attribute!r}{near}")
    found: object = getattr(module, attribute)
    return found


def _find(name: str, kind: str, attribute: str) -> object:
    if ":" in name:
        return load_attribute(name)
    places: list[str] = []
    if name in _built_in(kind):
        places.append(f"vlrft.{kind}.{name}:{attribute}")
    places += [e.value for e in _entry_points(kind) if e.name == name]
    if len(places) > 1:
        raise PluginError(
            f"{kind[:-1]} {name}: found twice, {' and '.join(places)}; name one in full"
        )
    if not places:
        known = _names(kind)
        raise PluginError(
            f"{kind[:-1]} {name!r} is unknown{_near(name, known)}; known: {', '.join(known)}; "
            f"or give package.module:attribute or ./file.py:attribute"
        )
    return load_attribute(places[0])


def _names(kind: str) -> list[str]:
    return sorted({*_built_in(kind), *(e.name for e in _entry_points(kind))})


def _built_in(kind: str) -> list[str]:
    package = importlib.import_module(f"vlrft.{kind}")
    return [m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")]


def _entry_points(kind: str) -> Iterable[EntryPoint]:
    return entry_points(group=f"vlrft.{kind}")


def _load_file(path: Path) -> ModuleType:
    """The file as a module of its own, loaded once; its name cannot shadow an installed module."""
    if not path.is_file():
        raise PluginError(f"{path}: no such file")
    full = path.resolve()
    name = f"vlrft_file_{hashlib.sha256(str(full).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _near(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
