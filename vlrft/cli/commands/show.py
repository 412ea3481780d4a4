"""vlrft show"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
from collections.abc import Sequence
from pathlib import Path

from vlrft.config.load import dump_config, load_config
from vlrft.config.shipped import shipped_configs
from vlrft.plugins.find import find_reward, find_task, load_attribute, reward_names, task_names
from vlrft.plugins.names import unknown_name
from vlrft.schema import Task
from vlrft.schema.errors import PluginError


def run(args: argparse.Namespace) -> None:
    name: str = args.name
    if Path(name).suffix in (".yaml", ".yml") or name in shipped_configs():
        show_config(name, args.overrides)
    elif ":" in name:
        show_reference(name)
    elif name in task_names():
        show_task(find_task(name))
    elif name in reward_names():
        print(f"{name}\n{inspect.getdoc(find_reward(name))}")
    else:
        show_algorithm(name)


def show_config(name: str, overrides: Sequence[str]) -> None:
    """The resolved config, after its engines' names and settings have been checked too."""
    from vlrft.engine import find_engine
    from vlrft.rollout.engines import find_rollout_engine

    config = load_config(name, overrides)
    find_engine(config.engine)
    find_rollout_engine(config.rollout.engine)
    print(dump_config(config), end="")


def show_reference(name: str) -> None:
    """A task, a reward or a method of somebody's own."""
    found = load_attribute(name)
    if isinstance(found, Task):
        show_task(found)
    elif callable(found):
        print(f"{name}\n{inspect.getdoc(found) or 'has no docstring'}")
    else:
        show_algorithm(name)


def show_task(task: Task) -> None:
    print(f"{task.name}: {task.doc}")
    print(f"splits: {', '.join(task.splits)}")
    print(f"rewards: {', '.join(f'{k} × {v}' for k, v in task.rewards.items())}")
    print("options:")
    for field in dataclasses.fields(task.options):
        print(f"  {field.name}: {field.type} = {field.default!r}")


def show_algorithm(name: str) -> None:
    from vlrft.algorithms import ALGORITHMS, find_algorithm

    if ":" not in name and name not in ALGORITHMS:
        known = [*task_names(), *reward_names(), *ALGORITHMS, *shipped_configs()]
        raise PluginError(unknown_name("task, reward, algorithm or config", name, known))
    algorithm = find_algorithm(name)
    print(f"{name}")
    for key, value in algorithm.describe().items():
        print(f"  {key}: {value}")
    print(f"\n{inspect.getdoc(type(algorithm.objective))}")
