"""Tasks, rewards and methods by name: built in, from another package, by import path, or from a file.

    digits                     a pack under tasks/, a file under rewards/, or an entry point of that name
    math_answer.r1v            another function of a file under rewards/, which its `__all__` names
    my_package.tasks:birds     an attribute of a module that can be imported
    ./mine.py:birds            an attribute of a file
    ./birds.py                 the same for what is named as usual: the file's reward `birds`, or its `task`

A name that two places offer is an error. Entry points stand in the groups `vlrft.tasks` and `vlrft.rewards`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, cast

from vlrft.plugins.names import unknown_name
from vlrft.plugins.references import absolute, load_attribute
from vlrft.plugins.reward_signature import signature_of
from vlrft.schema import Reward, Task
from vlrft.schema.errors import PluginError

__all__ = [
    "find_grader",
    "find_reward",
    "find_task",
    "load_attribute",
    "reward_names",
    "reward_reference",
    "reward_title",
    "task_names",
    "variants",
]

AnyReward = Callable[..., Any]


def find_task(name: str) -> Task:
    """The task of that name. Raises PluginError."""
    if ":" in name or name.endswith(".py"):
        found = load_attribute(name if ":" in name else f"{name}:task")
    else:
        found = load_attribute(_place(name, "tasks", name, "task"))
    if not isinstance(found, Task):
        raise PluginError(
            f"task {name}: found a {type(found).__name__}, expected a vlrft.schema.Task"
        )
    return found


def find_reward(name: str) -> AnyReward:
    """The reward of that name, in any of the forms that `signatures` knows. Raises PluginError."""
    reference = reward_reference(name)
    found = load_attribute(reference)
    try:
        signature_of(found)
    except PluginError as e:
        raise PluginError(f"reward {name}: {e}") from None
    return cast(AnyReward, found)


def find_grader(name: str) -> Reward:
    """A reward that sees one answer at a time, as grading does. Raises PluginError for one of another form."""
    found = find_reward(name)
    form = signature_of(found)
    if form.scope != "rollout" or form.asynchronous:
        raise PluginError(
            f"reward {name}: cannot grade; a grader is a plain function (completion, sample)"
        )
    return found


def reward_reference(name: str) -> str:
    """Where the reward of that name stands: `module:attribute` or `/file.py:attribute`. Raises PluginError."""
    if ":" in name:
        return absolute(name)
    if name.endswith(".py"):  # its function of the file's name
        return absolute(f"{name}:{Path(name).stem}")
    file, _, attribute = name.partition(".")
    return _place(name, "rewards", file, attribute or file)


def reward_title(name: str) -> str:
    """What a reward's scores are called: the name, or the function's where a module or a file is given."""
    return Path(name).stem if name.endswith(".py") else name.rpartition(":")[2]


def task_names() -> list[str]:
    return _names("tasks")


def reward_names() -> list[str]:
    """Those of files, of the variants in them, and of entry points."""
    return _names("rewards")


def _place(name: str, kind: str, file: str, attribute: str) -> str:
    """The reference of a built-in thing or an entry point."""
    places: list[str] = []
    if file in _files(kind) and name in _offered(kind, file):
        places.append(f"vlrft.{kind}.{file}:{attribute}")
    places += [e.value for e in _entry_points(kind) if e.name == name]
    if len(places) > 1:
        raise PluginError(
            f"{kind[:-1]} {name}: found twice, {' and '.join(places)}; name one in full"
        )
    if not places:
        raise PluginError(
            f"{unknown_name(kind[:-1], name, _names(kind))}; "
            f"or give package.module:attribute or ./file.py:attribute"
        )
    return places[0]


def _offered(kind: str, file: str) -> list[str]:
    """The names that a file or folder of ours stands for."""
    return [file, *(f"{file}.{v}" for v in variants(file))] if kind == "rewards" else [file]


def _names(kind: str) -> list[str]:
    ours = (name for file in _files(kind) for name in _offered(kind, file))
    return sorted({*ours, *(e.name for e in _entry_points(kind))})


def _files(kind: str) -> list[str]:
    package = importlib.import_module(f"vlrft.{kind}")
    return [m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")]


def variants(file: str) -> list[str]:
    """The other rewards of a file under rewards/: what its `__all__` names besides the one of the file's name."""
    module = importlib.import_module(f"vlrft.rewards.{file}")
    return [
        name
        for name in getattr(module, "__all__", ())
        if name != file and _is_reward(getattr(module, name, None))
    ]


def _is_reward(thing: object) -> bool:
    try:
        signature_of(thing)
    except PluginError:
        return False
    return True


@cache
def _entry_points(kind: str) -> tuple[EntryPoint, ...]:
    """Looks through every installed package, which takes as long as importing a pack."""
    return tuple(entry_points(group=f"vlrft.{kind}"))
