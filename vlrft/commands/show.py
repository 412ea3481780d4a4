"""vlrft show"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
from pathlib import Path

from vlrft.loading import dump_config, load_config
from vlrft.plugins import PluginError, find_reward, find_task, reward_names, task_names


def run(args: argparse.Namespace) -> None:
    name: str = args.name
    if Path(name).suffix in (".yaml", ".yml"):
        print(dump_config(load_config(name, args.overrides)), end="")
    elif name in task_names():
        show_task(name)
    elif name in reward_names():
        print(f"{name}\n{inspect.getdoc(find_reward(name))}")
    else:
        show_algorithm(name)


def show_task(name: str) -> None:
    task = find_task(name)
    print(f"{task.name}: {task.doc}")
    print(f"splits: {', '.join(task.splits)}")
    print(f"rewards: {', '.join(f'{k} × {v}' for k, v in task.rewards.items())}")
    print("options:")
    for field in dataclasses.fields(task.options):
        print(f"  {field.name}: {field.type} = {field.default!r}")


def show_algorithm(name: str) -> None:
    from vlrft.algorithms import ALGORITHMS

    if name not in ALGORITHMS:
        known = [*task_names(), *reward_names(), *ALGORITHMS]
        raise PluginError(f"{name!r} is no YAML file and no known name; known: {', '.join(known)}")
    algorithm = ALGORITHMS[name]
    print(f"{name}")
    for key, value in algorithm.describe().items():
        print(f"  {key}: {value}")
    print(f"\n{inspect.getdoc(type(algorithm.objective))}")
