"""Tasks, rewards and methods by name: built in, from another package, by import path, or from a file.

    digits                     a pack under tasks/, a file under rewards/, or an entry point of that name
    my_package.tasks:birds     an attribute of a module that can be imported
    ./mine.py:birds            an attribute of a file

A name that two places offer is an error. Entry points stand in the groups `vlrft.tasks` and `vlrft.rewards`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from vlrft.references import PluginError, load_attribute, near
from vlrft.schema import Reward, Task

__all__ = [
    "PluginError",
    "find_reward",
    "find_task",
    "load_attribute",
    "reward_names",
    "task_names",
]


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
            f"{kind[:-1]} {name!r} is unknown{near(name, known)}; known: {', '.join(known)}; "
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
