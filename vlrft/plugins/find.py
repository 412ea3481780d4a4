"""Tasks and rewards by name: built in, from an installed package, from an importable module, or from a file.

    digits                     a pack under tasks/, a file under rewards/, or an entry point of that name
    math_answer.r1v            another function of a file under rewards/, which its `__all__` names
    my_package.tasks:birds     an attribute of a module that can be imported
    ./mine.py:birds            an attribute of a file
    ./birds.py                 short for ./birds.py:birds (a reward) or ./birds.py:task (a task)

Entry points are in the groups `vlrft.tasks` and `vlrft.rewards`. A name that two places define is an error.
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
from vlrft.plugins.references import absolute_reference, load_attribute
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
    if name.endswith((".yaml", ".yml")):
        raise PluginError(f"task {name}: is a config; give the name of its task, `task` in it")
    if ":" in name or name.endswith(".py"):
        task = load_attribute(name if ":" in name else f"{name}:task")
    else:
        task = load_attribute(_reference(name, "tasks", name, "task"))
    if not isinstance(task, Task):
        raise PluginError(
            f"task {name}: found a {type(task).__name__}, expected a vlrft.schema.Task"
        )
    return task


def find_reward(name: str) -> AnyReward:
    """The reward function of that name, with any signature of `reward_signature`. Raises PluginError."""
    reward = load_attribute(reward_reference(name))
    try:
        signature_of(reward)
    except PluginError as e:
        raise PluginError(f"reward {name}: {e}") from None
    return cast(AnyReward, reward)


def find_grader(name: str) -> Reward:
    """The reward of that name as a grader, a plain function of one completion. Raises PluginError for any other."""
    reward = find_reward(name)
    signature = signature_of(reward)
    if signature.scope != "rollout" or signature.asynchronous:
        raise PluginError(
            f"reward {name}: cannot grade; a grader is a plain function (completion, sample)"
        )
    return reward


def reward_reference(name: str) -> str:
    """The reference of a reward's name, `module:attribute` or `/path/file.py:attribute`. Raises PluginError."""
    if ":" in name:
        return absolute_reference(name)
    if name.endswith(".py"):
        return absolute_reference(f"{name}:{Path(name).stem}")
    file, _, attribute = name.partition(".")
    return _reference(name, "rewards", file, attribute or file)


def reward_title(name: str) -> str:
    """The name of a reward's scores: its name, or for a reference the name of the function."""
    return Path(name).stem if name.endswith(".py") else name.rpartition(":")[2]


def task_names() -> list[str]:
    return _names("tasks")


def reward_names() -> list[str]:
    """The names of files under rewards/, of the variants in them, and of entry points."""
    return _names("rewards")


def _reference(name: str, kind: str, file: str, attribute: str) -> str:
    """The reference of a built-in task or reward, or of an entry point. `kind`: `tasks` or `rewards`."""
    references: list[str] = []
    if file in _files(kind) and name in _names_in(kind, file):
        references.append(f"vlrft.{kind}.{file}:{attribute}")
    references += [e.value for e in _entry_points(kind) if e.name == name]
    if len(references) > 1:
        raise PluginError(
            f"{kind[:-1]} {name}: found twice, {' and '.join(references)}; give one of these references"
        )
    if not references:
        problem = unknown_name(kind[:-1], name, _names(kind))
        raise PluginError(
            f"{problem}{' ' if problem.endswith('?') else '; '}`vlrft list {kind}` describes them; or give "
            "package.module:attribute or ./file.py:attribute"
        )
    return references[0]


def _names_in(kind: str, file: str) -> list[str]:
    """The names that a built-in file or folder defines."""
    return [file, *(f"{file}.{v}" for v in variants(file))] if kind == "rewards" else [file]


def _names(kind: str) -> list[str]:
    built_in = (name for file in _files(kind) for name in _names_in(kind, file))
    return sorted({*built_in, *(e.name for e in _entry_points(kind))})


def _files(kind: str) -> list[str]:
    """The public modules of a built-in folder."""
    package = importlib.import_module(f"vlrft.{kind}")
    return [m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")]


def variants(file: str) -> list[str]:
    """The variants in a file under rewards/: the rewards in its `__all__`, without the one of the file's own name."""
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
    """Cached, as reading the metadata of all installed packages takes as long as importing a pack."""
    return tuple(entry_points(group=f"vlrft.{kind}"))
